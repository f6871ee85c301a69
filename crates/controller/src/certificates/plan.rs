//! What has to be done about the certificates: a pure function of the time and of what the Secrets hold.
//!
//! There is an authority for each purpose. An authority's successor is trusted by everybody long before it signs, and the authority is
//! trusted until it expires, so that at any moment every certificate in use is trusted by every bundle in use. A Secret that is gone or
//! cannot be read is made again at once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use netloom_certificate::pem::{Certificate, Usage, bundle, read_all};
use netloom_certificate::{CA_CERTIFICATE, CERTIFICATE, CLIENTS, Files, KEY, text};

/// Keys of an authority's Secret, next to `ca.crt`, its certificate: its private key.
pub const CA_KEY: &str = "ca.key";
/// All certificates to trust.
pub const BUNDLE: &str = "bundle";
/// The certificate of the authority's successor.
pub const NEXT_CERTIFICATE: &str = "next.crt";
/// The private key of the authority's successor.
pub const NEXT_KEY: &str = "next.key";

/// The Secret with what agents trust, and what their own certificates are trusted by. It holds no key.
pub const TRUST: &str = "netloom-trust";
/// The Secrets of a version in which all agents shared a certificate, signed by what is now the authority of the nodes. They are never
/// made; where they are, they also trust the members, so that what still runs with them reaches the databases until it is replaced.
pub const FORMER: [&str; 3] = ["netloom-ovn-tls", "netloom-agent-tls", "netloom-controller-tls"];

/// An authority lives this many times as long as what it signs: ten years for the default of 90 days.
const AUTHORITY_LIVES: u32 = 40;
/// The timer never sleeps longer: it does not count the time a machine is suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authority {
    /// Signs the databases, northd and the controller. Only what it signed is taken for a database, opens the Northbound or is a member.
    Members,
    /// Signs a certificate for each node, which opens the relays of the Southbound.
    Nodes,
}

impl Authority {
    /// All of them. What the first signs is trusted wherever what the second signs is.
    pub const ALL: [Authority; 2] = [Authority::Members, Authority::Nodes];

    /// What its name has in it.
    pub fn purpose(self) -> &'static str {
        match self {
            Authority::Members => "member",
            Authority::Nodes => "node",
        }
    }

    /// Its Secret.
    pub fn secret(self) -> &'static str {
        match self {
            Authority::Members => "netloom-member-ca",
            Authority::Nodes => "netloom-ca",
        }
    }
}

/// Who a certificate is for, if it is kept in a Secret. Those of nodes are not: their keys never leave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The databases and northd.
    Ovn,
    /// The controller.
    Controller,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 2] = [Role::Ovn, Role::Controller];

    /// The common name of its certificate.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ovn => "ovn",
            Role::Controller => "controller",
        }
    }

    /// The Secret of its certificate.
    pub fn secret(self) -> &'static str {
        match self {
            Role::Ovn => "netloom-member-tls",
            Role::Controller => "netloom-northbound-tls",
        }
    }

    /// What its certificate is for.
    pub fn usage(self) -> Usage {
        match self {
            Role::Ovn => Usage::ServerAndClient,
            Role::Controller => Usage::Client,
        }
    }
}

/// How long certificates are valid.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Of what an authority signs.
    pub leaf: Duration,
}

impl Lifetimes {
    /// Of an authority.
    pub fn authority(self) -> Duration {
        self.leaf * AUTHORITY_LIVES
    }
}

/// What the Secrets hold that are there, by their names.
#[derive(Clone, Debug, Default)]
pub struct Found(pub BTreeMap<&'static str, Files>);

impl Found {
    /// The names of all that are looked at.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let authorities = Authority::ALL.map(Authority::secret).into_iter();
        authorities.chain(Role::ALL.map(Role::secret)).chain([TRUST]).chain(FORMER)
    }

    /// All certificates to trust where this authority is.
    pub fn bundle(&self, authority: Authority) -> &str {
        self.0.get(authority.secret()).map_or("", |files| text(files, BUNDLE))
    }
}

/// One Secret to write. All others wait until the authorities' are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make an authority, and keep trusting these.
    MakeAuthority {
        /// Which.
        authority: Authority,
        /// Why.
        reason: &'static str,
        /// Certificates of others that are to be trusted.
        trusted: Vec<String>,
    },
    /// Make the successor of an authority, which stays as it is.
    MakeSuccessor(Authority),
    /// Write an authority's Secret: its successor takes over, or the bundle was wrong.
    WriteAuthority(Authority, Files),
    /// Make a certificate for a role.
    Issue(Role, &'static str),
    /// Replace what is trusted: a Secret with what it is to hold.
    Trust(&'static str, Files),
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
    let authority = |authority| plan_authority(now, authority, found, lifetimes, &mut by);
    let actions = match Authority::ALL.into_iter().find_map(authority) {
        Some(action) => vec![action],
        None => {
            let leaves = Role::ALL.into_iter().filter_map(|role| plan_leaf(now, role, found, &mut by));
            let leaves: Vec<_> = leaves.collect();
            leaves.into_iter().chain(plan_trust(found)).collect()
        }
    };
    Plan { actions, next }
}

fn plan_authority(now: Timestamp, of: Authority, found: &Found, lifetimes: Lifetimes, by: &mut impl FnMut(Timestamp)) -> Option<Action> {
    let valid = |certificate: &&Certificate| now < certificate.until;
    let others = match of {
        Authority::Members => Vec::new(),
        Authority::Nodes => read_all(found.bundle(Authority::Members)),
    };
    let make = |reason, known: &[Certificate]| Action::MakeAuthority {
        authority: of,
        reason,
        trusted: known
            .iter()
            .chain(&others)
            .filter(valid)
            .map(|certificate| certificate.text.clone())
            .collect(),
    };
    let Some(files) = found.0.get(of.secret()) else {
        return Some(make("there is none", &[]));
    };
    let current = pair(files, CA_CERTIFICATE, CA_KEY).filter(|current| now < current.until);
    let successor = pair(files, NEXT_CERTIFICATE, NEXT_KEY).filter(|successor| now < successor.until);
    let known = read_all(text(files, BUNDLE));
    let Some(current) = current else {
        return Some(match successor {
            Some(successor) => Action::WriteAuthority(of, promoted(files, &successor, known.iter().filter(valid))),
            None => make("it cannot be read or has expired", &known),
        });
    };
    match &successor {
        None if now >= current.after(2, 3) => return Some(Action::MakeSuccessor(of)),
        None => by(current.after(2, 3)),
        Some(successor) => {
            // Everybody has the bundle by then, however slowly it spreads.
            let spread = successor.from.checked_add(lifetimes.leaf / 3).unwrap_or(successor.until);
            let takes_over = current.after(5, 6).max(spread).min(current.until);
            if now >= takes_over {
                let trusted = std::iter::once(&current).chain(&known).filter(valid);
                return Some(Action::WriteAuthority(of, promoted(files, successor, trusted)));
            }
            by(takes_over);
        }
    }
    let trusted = successor.iter().chain(known.iter().chain(&others).filter(valid));
    let bundle = bundle(std::iter::once(&current).chain(trusted));
    known.iter().for_each(|certificate| by(certificate.until));
    (bundle != text(files, BUNDLE)).then(|| {
        let mut files = files.clone();
        files.insert(BUNDLE.to_owned(), bundle);
        Action::WriteAuthority(of, files)
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

fn plan_leaf(now: Timestamp, role: Role, found: &Found, by: &mut impl FnMut(Timestamp)) -> Option<Action> {
    let issue = |reason| Some(Action::Issue(role, reason));
    let Some(files) = found.0.get(role.secret()) else {
        return issue("there is none");
    };
    let Some(certificate) = pair(files, CERTIFICATE, KEY) else {
        return issue("certificate and key cannot be read or do not belong together");
    };
    if certificate.name != role.name() || certificate.serves != (role.usage() == Usage::ServerAndClient) {
        return issue("it is for somebody else");
    }
    let authorities = read_all(found.bundle(Authority::Members));
    let Some(signer) = authorities.iter().find(|authority| certificate.is_signed_by(authority)) else {
        return issue("nobody trusts who signed it");
    };
    let renewal = certificate.after(2, 3).min(signer.until);
    if now >= renewal {
        return issue("two thirds of its life are over");
    }
    by(renewal);
    trusting(role.secret(), files, &trusted(found))
}

/// What agents trust, and what the parts of a former version do.
fn plan_trust(found: &Found) -> impl Iterator<Item = Action> {
    let none = Files::new();
    let agents = trusting(TRUST, found.0.get(TRUST).unwrap_or(&none), &trusted(found));
    let nodes = found.bundle(Authority::Nodes);
    let former = FORMER.into_iter().filter_map(move |secret| {
        let wanted = Files::from([(CA_CERTIFICATE.to_owned(), nodes.to_owned())]);
        trusting(secret, found.0.get(secret)?, &wanted)
    });
    agents.into_iter().chain(former)
}

/// Who servers are trusted by, and who clients of the relays are.
pub fn trusted(found: &Found) -> Files {
    Files::from([
        (CA_CERTIFICATE.to_owned(), found.bundle(Authority::Members).to_owned()),
        (CLIENTS.to_owned(), found.bundle(Authority::Nodes).to_owned()),
    ])
}

fn trusting(secret: &'static str, files: &Files, wanted: &Files) -> Option<Action> {
    let differs = wanted.iter().any(|(key, bundle)| text(files, key) != bundle);
    differs.then(|| {
        let mut files = files.clone();
        files.extend(wanted.clone());
        Action::Trust(secret, files)
    })
}

/// The certificate of a Secret, if its key is there too.
fn pair(files: &Files, certificate: &str, key: &str) -> Option<Certificate> {
    let found = Certificate::read(text(files, certificate)).ok()?;
    found.has_key(text(files, key)).then_some(found)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
