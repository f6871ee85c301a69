#![allow(clippy::unwrap_used)]

use super::super::issue::perform;
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
const LIFETIMES: Lifetimes = Lifetimes {
    leaf: Duration::from_secs(90 * 24 * 3600),
};

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn later(days: u32) -> Timestamp {
    start() + DAY * days
}

/// Does what the plan asks for until it asks for nothing; gives what was done.
fn settle(now: Timestamp, found: &mut Found) -> Vec<Action> {
    let mut done = Vec::new();
    for _ in 0..10 {
        let actions = plan(now, found, LIFETIMES).actions;
        if actions.is_empty() {
            return done;
        }
        for action in actions {
            let (secret, files) = perform(&action, now, found, LIFETIMES).unwrap();
            match Role::ALL.into_iter().find(|role| role.secret() == secret) {
                Some(role) => drop(found.leaves.insert(role, files)),
                None => found.authority = Some(files),
            }
            done.push(action);
        }
    }
    panic!("never settles: {done:?}")
}

fn fresh() -> Found {
    let mut found = Found::default();
    settle(start(), &mut found);
    found
}

fn issued(actions: &[Action]) -> Vec<Role> {
    let role = |action: &Action| match action {
        Action::Issue(role, _) => Some(*role),
        _ => None,
    };
    actions.iter().filter_map(role).collect()
}

fn file(found: &Found, role: Role, key: &str) -> String {
    text(&found.leaves[&role], key).to_owned()
}

#[test]
fn nothing_there_makes_an_authority_first_and_then_one_certificate_for_each_role() {
    let mut found = Found::default();
    let first = plan(start(), &found, LIFETIMES).actions;
    assert!(matches!(first[..], [Action::MakeAuthority { .. }]), "{first:?}");
    let done = settle(start(), &mut found);
    assert_eq!(issued(&done), Role::ALL);
    for role in Role::ALL {
        let certificate = Certificate::read(&file(&found, role, CERTIFICATE)).unwrap();
        assert_eq!(certificate.name, role.name());
        assert!(certificate.from < start() && certificate.until == later(90));
        assert_eq!(file(&found, role, CA_CERTIFICATE), text(found.authority.as_ref().unwrap(), BUNDLE));
    }
}

#[test]
fn all_fresh_needs_nothing_before_the_next_day() {
    assert_eq!(
        plan(start(), &fresh(), LIFETIMES),
        Plan {
            actions: Vec::new(),
            next: later(1)
        }
    );
}

#[test]
fn the_deadline_is_the_renewal_when_that_is_near() {
    let found = fresh();
    let renewal = Certificate::read(&file(&found, Role::Ovn, CERTIFICATE)).unwrap().after(2, 3);
    let planned = plan(later(59) + DAY / 2, &found, LIFETIMES);
    assert_eq!(
        planned,
        Plan {
            actions: Vec::new(),
            next: renewal
        }
    );
    assert_eq!(issued(&plan(renewal, &found, LIFETIMES).actions), Role::ALL);
}

#[test]
fn an_old_leaf_is_renewed_alone() {
    let mut found = fresh();
    let old = found.leaves[&Role::Agent].clone();
    settle(later(61), &mut found);
    found.leaves.insert(Role::Agent, old);
    assert_eq!(issued(&settle(later(62), &mut found)), [Role::Agent]);
    assert_eq!(issued(&settle(later(62), &mut found)), []);
}

#[test]
fn an_expired_leaf_is_issued_again() {
    assert_eq!(issued(&settle(later(200), &mut fresh())), Role::ALL);
}

#[test]
fn a_leaf_of_another_authority_or_of_another_role_is_replaced() {
    let (mut found, stranger) = (fresh(), fresh());
    found.leaves.insert(Role::Ovn, stranger.leaves[&Role::Ovn].clone());
    found.leaves.insert(Role::Agent, found.leaves[&Role::Controller].clone());
    assert_eq!(issued(&settle(start(), &mut found)), [Role::Ovn, Role::Agent]);
}

#[test]
fn a_lost_authority_is_replaced_with_all_it_signed() {
    let mut found = fresh();
    found.authority = None;
    let done = settle(start(), &mut found);
    assert!(matches!(done[0], Action::MakeAuthority { .. }));
    assert_eq!(issued(&done), Role::ALL);
}

#[test]
fn damaged_text_is_as_good_as_none() {
    for (key, damage) in [
        (CERTIFICATE, "-----BEGIN CERTIFICATE-----\nAAAA\n"),
        (KEY, ""),
        (KEY, "not a key"),
        (CERTIFICATE, ""),
    ] {
        let mut found = fresh();
        found
            .leaves
            .get_mut(&Role::Agent)
            .unwrap()
            .insert(key.to_owned(), damage.to_owned());
        assert_eq!(issued(&settle(start(), &mut found)), [Role::Agent], "{key} {damage}");
    }
    let mut found = fresh();
    found
        .leaves
        .get_mut(&Role::Agent)
        .unwrap()
        .insert(CA_CERTIFICATE.to_owned(), "x".to_owned());
    assert_eq!(settle(start(), &mut found), [Action::Trust(Role::Agent)]);
}

#[test]
fn a_damaged_authority_key_makes_a_new_authority_while_the_old_one_stays_trusted() {
    let mut found = fresh();
    found.authority.as_mut().unwrap().insert(CA_KEY.to_owned(), "broken".to_owned());
    let done = settle(start() + DAY, &mut found);
    assert_eq!(issued(&done), [], "what the old one signed is still trusted");
    assert_eq!(read_all(&file(&found, Role::Ovn, CA_CERTIFICATE)).len(), 2);
}

#[test]
fn a_damaged_bundle_is_mended() {
    let mut found = fresh();
    found.authority.as_mut().unwrap().insert(BUNDLE.to_owned(), "broken".to_owned());
    let done = settle(start(), &mut found);
    assert!(matches!(done[..], [Action::WriteAuthority(_)]), "{done:?}");
}

#[test]
fn a_successor_is_trusted_long_before_it_signs_and_the_old_authority_long_after() {
    let mut found = fresh();
    let first = Certificate::read(text(found.authority.as_ref().unwrap(), CA_CERTIFICATE)).unwrap();
    let (mut trusted_at, mut signs_at) = (None, None);
    // Twice the ten years, in steps of a month, as if somebody were always there.
    for day in (0..7200).step_by(30) {
        let before = found.clone();
        settle(later(day), &mut found);
        let authority = found.authority.as_ref().unwrap();
        if read_all(text(authority, BUNDLE)).len() > 1 {
            trusted_at = trusted_at.or(Some(day));
        }
        if text(authority, CA_CERTIFICATE) != first.text {
            signs_at = signs_at.or(Some(day));
        }
        // Whoever has still the files of a month ago and whoever has today's trust each other.
        for (one, other) in [(&before, &found), (&found, &before)] {
            let certificate = Certificate::read(&file(one, Role::Agent, CERTIFICATE)).unwrap();
            let trusted = read_all(&file(other, Role::Ovn, CA_CERTIFICATE));
            assert!(trusted.iter().any(|authority| certificate.is_signed_by(authority)), "day {day}");
            assert!(later(day) < certificate.until, "day {day}");
        }
    }
    assert_eq!((trusted_at, signs_at), (Some(2400), Some(3000)));
    let bundle = read_all(text(found.authority.as_ref().unwrap(), BUNDLE));
    assert!(
        bundle.iter().all(|authority| authority.text != first.text),
        "an expired authority is forgotten"
    );
}

#[test]
fn after_years_without_a_controller_everything_is_made_anew() {
    let mut found = fresh();
    let done = settle(later(5000), &mut found);
    assert!(matches!(done[0], Action::MakeAuthority { .. }));
    assert_eq!(issued(&done), Role::ALL);
    assert_eq!(read_all(&file(&found, Role::Ovn, CA_CERTIFICATE)).len(), 1);
}
