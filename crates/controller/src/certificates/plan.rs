//! What has to be done about the certificates: a pure function of the time and of what the Secrets hold.
//!
//! An authority's successor is trusted by everybody long before it signs, and the authority is trusted until it expires, so that at any
//! moment every certificate in use is trusted by every bundle in use. A Secret that is gone or cannot be read is made again at once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::pem::{Certificate, read_all};

/// The Secret of the authority.
pub const AUTHORITY: &str = "netloom-ca";
/// Keys of the authority's Secret.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// The authority's private key.
pub const CA_KEY: &str = "ca.key";
/// All certificates to trust.
pub const BUNDLE: &str = "bundle";
/// The certificate of the authority's successor.
pub const NEXT_CERTIFICATE: &str = "next.crt";
/// The private key of the authority's successor.
pub const NEXT_KEY: &str = "next.key";
/// Keys of a role's Secret, next to `ca.crt`, which holds the bundle there.
pub const CERTIFICATE: &str = "tls.crt";
/// The role's private key.
pub const KEY: &str = "tls.key";

/// An authority lives this many times as long as what it signs: ten years for the default of 90 days.
const AUTHORITY_LIVES: u32 = 40;
/// The timer never sleeps longer: it does not count the time a machine is suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

/// The content of a Secret.
pub type Files = BTreeMap<String, String>;

/// Who a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The databases and northd.
    Ovn,
    /// Agents and their ovn-controller.
    Agent,
    /// The controller.
    Controller,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Ovn, Role::Agent, Role::Controller];

    /// The common name of its certificate.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ovn => "ovn",
            Role::Agent => "agent",
            Role::Controller => "controller",
        }
    }

    /// The Secret of its certificate.
    pub fn secret(self) -> &'static str {
        match self {
            Role::Ovn => "netloom-ovn-tls",
            Role::Agent => "netloom-agent-tls",
            Role::Controller => "netloom-controller-tls",
        }
    }
}

/// How long certificates are valid.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Of what the authority signs.
    pub leaf: Duration,
}

impl Lifetimes {
    /// Of the authority.
    pub fn authority(self) -> Duration {
        self.leaf * AUTHORITY_LIVES
    }
}

/// What the Secrets hold.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The authority's, if there is one.
    pub authority: Option<Files>,
    /// Those of the roles that have one.
    pub leaves: BTreeMap<Role, Files>,
}

/// One Secret to write. Those of the roles wait until the authority's is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make an authority, and keep trusting these.
    MakeAuthority {
        /// Why.
        reason: &'static str,
        /// Certificates of former authorities that are still valid.
        trusted: Vec<String>,
    },
    /// Make the successor of the authority, which stays as it is.
    MakeSuccessor,
    /// Write the authority's Secret: its successor takes over, or the bundle was wrong.
    WriteAuthority(Files),
    /// Make a certificate for a role.
    Issue(Role, &'static str),
    /// Replace what a role trusts.
    Trust(Role),
}

/// What to do now, and when to look again if nothing happens before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In this order. When the list is empty everything is as it should be.
    pub actions: Vec<Action>,
    /// The next deadline.
    pub next: Timestamp,
}

/// Plans.
pub fn plan(now: Timestamp, found: &Found, lifetimes: Lifetimes) -> Plan {
    let mut next = now.checked_add(LONGEST_SLEEP).unwrap_or(now);
    let mut by = |deadline: Timestamp| next = next.min(deadline.max(now));
    let action = match &found.authority {
        None => Some(Action::MakeAuthority {
            reason: "there is none",
            trusted: Vec::new(),
        }),
        Some(files) => plan_authority(now, files, lifetimes, &mut by),
    };
    let actions = match (action, &found.authority) {
        (None, Some(authority)) => {
            let bundle = text(authority, BUNDLE);
            let of_role = |role| plan_leaf(now, role, found.leaves.get(&role), bundle, &mut by);
            Role::ALL.into_iter().filter_map(of_role).collect()
        }
        (action, _) => action.into_iter().collect(),
    };
    Plan { actions, next }
}

fn plan_authority(now: Timestamp, files: &Files, lifetimes: Lifetimes, by: &mut impl FnMut(Timestamp)) -> Option<Action> {
    let current = pair(files, CA_CERTIFICATE, CA_KEY).filter(|current| now < current.until);
    let successor = pair(files, NEXT_CERTIFICATE, NEXT_KEY).filter(|successor| now < successor.until);
    let known = read_all(text(files, BUNDLE));
    let valid = |certificate: &&Certificate| now < certificate.until;
    let Some(current) = current else {
        return Some(match successor {
            Some(successor) => Action::WriteAuthority(promoted(files, &successor, known.iter().filter(valid))),
            None => Action::MakeAuthority {
                reason: "it cannot be read or has expired",
                trusted: known.iter().filter(valid).map(|certificate| certificate.text.clone()).collect(),
            },
        });
    };
    match &successor {
        None if now >= current.after(2, 3) => return Some(Action::MakeSuccessor),
        None => by(current.after(2, 3)),
        Some(successor) => {
            // Everybody has the bundle by then, however slowly it spreads.
            let spread = successor.from.checked_add(lifetimes.leaf / 3).unwrap_or(successor.until);
            let takes_over = current.after(5, 6).max(spread).min(current.until);
            if now >= takes_over {
                let trusted = std::iter::once(&current).chain(&known).filter(valid);
                return Some(Action::WriteAuthority(promoted(files, successor, trusted)));
            }
            by(takes_over);
        }
    }
    let trusted = successor.iter().chain(known.iter().filter(valid));
    let bundle = bundle(std::iter::once(&current).chain(trusted));
    known.iter().for_each(|certificate| by(certificate.until));
    (bundle != text(files, BUNDLE)).then(|| {
        let mut files = files.clone();
        files.insert(BUNDLE.to_owned(), bundle);
        Action::WriteAuthority(files)
    })
}

/// The authority's Secret when its successor has taken over.
fn promoted<'a>(files: &Files, successor: &'a Certificate, trusted: impl Iterator<Item = &'a Certificate>) -> Files {
    Files::from([
        (CA_CERTIFICATE.to_owned(), successor.text.clone()),
        (CA_KEY.to_owned(), text(files, NEXT_KEY).to_owned()),
        (BUNDLE.to_owned(), bundle(std::iter::once(successor).chain(trusted))),
    ])
}

fn plan_leaf(now: Timestamp, role: Role, files: Option<&Files>, bundle: &str, by: &mut impl FnMut(Timestamp)) -> Option<Action> {
    let issue = |reason| Some(Action::Issue(role, reason));
    let Some(files) = files else { return issue("there is none") };
    let Some(certificate) = pair(files, CERTIFICATE, KEY) else {
        return issue("certificate and key cannot be read or do not belong together");
    };
    if certificate.name != role.name() {
        return issue("it is for somebody else");
    }
    let signer = read_all(bundle).into_iter().find(|authority| certificate.is_signed_by(authority));
    let Some(signer) = signer else {
        return issue("nobody trusts who signed it");
    };
    let renewal = certificate.after(2, 3).min(signer.until);
    if now >= renewal {
        return issue("two thirds of its life are over");
    }
    by(renewal);
    (text(files, CA_CERTIFICATE) != bundle).then_some(Action::Trust(role))
}

/// The certificate of a Secret, if its key is there too.
fn pair(files: &Files, certificate: &str, key: &str) -> Option<Certificate> {
    let found = Certificate::read(text(files, certificate)).ok()?;
    found.has_key(text(files, key)).then_some(found)
}

/// Certificates one after another, each once.
pub fn bundle<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for certificate in certificates {
        if !texts.contains(&certificate.text.as_str()) {
            texts.push(&certificate.text);
        }
    }
    texts.concat()
}

/// A file of a Secret, empty if it is not there.
pub fn text<'a>(files: &'a Files, key: &str) -> &'a str {
    files.get(key).map_or("", String::as_str)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
