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
            found.0.insert(secret, files);
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
    text(&found.0[role.secret()], key).to_owned()
}

fn members(found: &Found) -> &Files {
    &found.0[Authority::Members.secret()]
}

fn leaf(found: &mut Found, role: Role) -> &mut Files {
    found.0.get_mut(role.secret()).unwrap()
}

#[test]
fn nothing_there_makes_an_authority_first_and_then_one_certificate_for_each_role() {
    let mut found = Found::default();
    let first = plan(start(), &found, LIFETIMES).actions;
    assert!(
        matches!(
            first[..],
            [Action::MakeAuthority {
                authority: Authority::Members,
                ..
            }]
        ),
        "{first:?}"
    );
    let done = settle(start(), &mut found);
    assert_eq!(issued(&done), Role::ALL);
    for role in Role::ALL {
        let certificate = Certificate::read(&file(&found, role, CERTIFICATE)).unwrap();
        assert_eq!(certificate.name, role.name());
        assert!(certificate.from < start() && certificate.until == later(90));
        assert_eq!(file(&found, role, CA_CERTIFICATE), text(members(&found), BUNDLE));
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
    let old = leaf(&mut found, Role::Ovn).clone();
    settle(later(61), &mut found);
    *leaf(&mut found, Role::Ovn) = old;
    assert_eq!(issued(&settle(later(62), &mut found)), [Role::Ovn]);
    assert_eq!(issued(&settle(later(62), &mut found)), []);
}

#[test]
fn an_expired_leaf_is_issued_again() {
    assert_eq!(issued(&settle(later(200), &mut fresh())), Role::ALL);
}

#[test]
fn a_leaf_of_another_authority_or_of_another_role_is_replaced() {
    let (mut found, mut stranger) = (fresh(), fresh());
    *leaf(&mut found, Role::Ovn) = leaf(&mut stranger, Role::Ovn).clone();
    assert_eq!(issued(&settle(start(), &mut found)), [Role::Ovn]);
    *leaf(&mut found, Role::Controller) = leaf(&mut found, Role::Ovn).clone();
    assert_eq!(issued(&settle(start(), &mut found)), [Role::Controller]);
}

#[test]
fn a_lost_authority_is_replaced_with_all_it_signed() {
    let mut found = fresh();
    found.0.remove(Authority::Members.secret());
    let done = settle(start(), &mut found);
    assert!(matches!(done[0], Action::MakeAuthority { .. }));
    assert_eq!(issued(&done), Role::ALL);
}

#[test]
fn a_lost_authority_of_the_nodes_is_replaced_and_nothing_else() {
    let mut found = fresh();
    let before = found.clone();
    found.0.remove(Authority::Nodes.secret());
    let done = settle(start(), &mut found);
    assert_eq!(issued(&done), []);
    // Agents see that the authority of what they have is no longer trusted.
    assert_ne!(found.0[TRUST][CLIENTS], before.0[TRUST][CLIENTS]);
    assert_eq!(found.0[TRUST][CA_CERTIFICATE], before.0[TRUST][CA_CERTIFICATE]);
}

/// What a node has must open nothing but the relays of the Southbound, and pass for no server.
#[test]
fn servers_and_members_are_never_trusted_by_the_authority_of_the_nodes() {
    let found = fresh();
    let nodes = Certificate::read(text(&found.0[Authority::Nodes.secret()], CA_CERTIFICATE)).unwrap();
    for secret in [Role::Ovn.secret(), Role::Controller.secret(), TRUST] {
        let files = &found.0[secret];
        let trusted = |key| read_all(text(files, key)).iter().any(|authority| authority.text == nodes.text);
        assert!(!trusted(CA_CERTIFICATE), "{secret}");
        assert!(trusted(CLIENTS), "{secret}");
    }
    assert!(!found.0[TRUST].contains_key(KEY));
    let serves = |role| Certificate::read(&file(&found, role, CERTIFICATE)).unwrap().serves;
    assert_eq!(Role::ALL.map(serves), [true, false]);
}

/// The authority of a former version signed the certificate that all agents share. It opens no more than one of a node from now on.
#[test]
fn what_all_agents_shared_opens_only_what_a_node_may_and_its_holders_trust_the_members() {
    let (from, until) = (start(), later(3600));
    let old = netloom_certificate::pem::make_authority("old", from, until).unwrap();
    let shared = netloom_certificate::pem::make_leaf("agent", Usage::ServerAndClient, &old, from, until).unwrap();
    let bundle = Certificate::read(&old.certificate).unwrap().text;
    let files = |entries: [(&str, &String); 3]| Files::from(entries.map(|(key, text)| (key.to_owned(), text.clone())));
    let mut found = Found::default();
    let authority = files([(CA_CERTIFICATE, &old.certificate), (CA_KEY, &old.key), (BUNDLE, &bundle)]);
    found.0.insert("netloom-ca", authority);
    let agent = files([(CA_CERTIFICATE, &bundle), (CERTIFICATE, &shared.certificate), (KEY, &shared.key)]);
    found.0.insert("netloom-agent-tls", agent);
    settle(start(), &mut found);

    let shared = Certificate::read(&shared.certificate).unwrap();
    let trusts = |secret: &str, key: &str| read_all(text(&found.0[secret], key)).iter().any(|by| shared.is_signed_by(by));
    assert!(!trusts(Role::Ovn.secret(), CA_CERTIFICATE) && !trusts(TRUST, CA_CERTIFICATE));
    assert!(trusts(Role::Ovn.secret(), CLIENTS));
    let server = Certificate::read(&file(&found, Role::Ovn, CERTIFICATE)).unwrap();
    let known = read_all(text(&found.0["netloom-agent-tls"], CA_CERTIFICATE));
    assert!(known.iter().any(|by| server.is_signed_by(by)));
    assert!(!found.0.contains_key("netloom-ovn-tls"), "what is not there is not made");
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
        leaf(&mut found, Role::Ovn).insert(key.to_owned(), damage.to_owned());
        assert_eq!(issued(&settle(start(), &mut found)), [Role::Ovn], "{key} {damage}");
    }
    let mut found = fresh();
    leaf(&mut found, Role::Ovn).insert(CA_CERTIFICATE.to_owned(), "x".to_owned());
    assert!(matches!(settle(start(), &mut found)[..], [Action::Trust("netloom-member-tls", _)]));
    found.0.remove(TRUST);
    assert!(matches!(settle(start(), &mut found)[..], [Action::Trust(TRUST, _)]));
}

#[test]
fn a_damaged_authority_key_makes_a_new_authority_while_the_old_one_stays_trusted() {
    let mut found = fresh();
    found
        .0
        .get_mut(Authority::Members.secret())
        .unwrap()
        .insert(CA_KEY.to_owned(), "broken".to_owned());
    let done = settle(start() + DAY, &mut found);
    assert_eq!(issued(&done), [], "what the old one signed is still trusted");
    assert_eq!(read_all(&file(&found, Role::Ovn, CA_CERTIFICATE)).len(), 2);
}

#[test]
fn a_damaged_bundle_is_mended() {
    let mut found = fresh();
    found
        .0
        .get_mut(Authority::Members.secret())
        .unwrap()
        .insert(BUNDLE.to_owned(), "broken".to_owned());
    let done = settle(start(), &mut found);
    assert!(matches!(done[..], [Action::WriteAuthority(Authority::Members, _)]), "{done:?}");
}

#[test]
fn a_successor_is_trusted_long_before_it_signs_and_the_old_authority_long_after() {
    let mut found = fresh();
    let first = Certificate::read(text(members(&found), CA_CERTIFICATE)).unwrap();
    let (mut trusted_at, mut signs_at) = (None, None);
    // Twice the ten years, in steps of a month, as if somebody were always there.
    for day in (0..7200).step_by(30) {
        let before = found.clone();
        settle(later(day), &mut found);
        let authority = members(&found);
        if read_all(text(authority, BUNDLE)).len() > 1 {
            trusted_at = trusted_at.or(Some(day));
        }
        if text(authority, CA_CERTIFICATE) != first.text {
            signs_at = signs_at.or(Some(day));
        }
        // Whoever has still the files of a month ago and whoever has today's trust each other.
        for (one, other) in [(&before, &found), (&found, &before)] {
            let certificate = Certificate::read(&file(one, Role::Controller, CERTIFICATE)).unwrap();
            let trusted = read_all(&file(other, Role::Ovn, CA_CERTIFICATE));
            assert!(trusted.iter().any(|authority| certificate.is_signed_by(authority)), "day {day}");
            assert!(later(day) < certificate.until, "day {day}");
        }
    }
    assert_eq!((trusted_at, signs_at), (Some(2400), Some(3000)));
    let bundle = read_all(text(members(&found), BUNDLE));
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
