//! Does what the plan asks for: turns an action into the content of one Secret. Makes keys, touches no cluster.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use netloom_certificate::pem::{Certificate, Pair, bundle, make_authority, make_leaf, read_all};
use netloom_certificate::{CA_CERTIFICATE, CERTIFICATE, Files, KEY, text};

use super::plan::{Action, Authority, BUNDLE, CA_KEY, Found, Lifetimes, NEXT_CERTIFICATE, NEXT_KEY, trusted};

/// Clocks may differ by this much; short lives allow less.
const SKEW: Duration = Duration::from_secs(300);

/// From when to when a certificate is valid that is made now.
pub fn validity(now: Timestamp, lifetime: Duration, leaf: Duration) -> Result<(Timestamp, Timestamp)> {
    let from = now.checked_sub(SKEW.min(leaf / 10)).context("read the clock")?;
    let until = now.checked_add(lifetime).context("add the certificate's lifetime to the clock")?;
    Ok((from, until))
}

/// The Secret to write, and what it is to hold.
pub fn perform(action: &Action, now: Timestamp, found: &Found, lifetimes: Lifetimes) -> Result<(&'static str, Files)> {
    let make = |authority: Authority| {
        let (from, until) = validity(now, lifetimes.authority(), lifetimes.leaf)?;
        make_authority(authority.purpose(), from, until)
    };
    Ok(match action {
        Action::MakeAuthority { authority, trusted, .. } => {
            let made = make(*authority)?;
            let certificate = Certificate::read(&made.certificate)?;
            let kept = read_all(&trusted.concat());
            let files = [
                (CA_CERTIFICATE, made.certificate),
                (CA_KEY, made.key),
                (BUNDLE, bundle(std::iter::once(&certificate).chain(&kept))),
            ];
            (authority.secret(), files.map(|(key, text)| (key.to_owned(), text)).into())
        }
        Action::MakeSuccessor(authority) => {
            let made = make(*authority)?;
            let mut files = found.0.get(authority.secret()).cloned().unwrap_or_default();
            let trusted = read_all(&[text(&files, CA_CERTIFICATE), &made.certificate, text(&files, BUNDLE)].concat());
            files.insert(NEXT_CERTIFICATE.to_owned(), made.certificate);
            files.insert(NEXT_KEY.to_owned(), made.key);
            files.insert(BUNDLE.to_owned(), bundle(trusted.iter()));
            (authority.secret(), files)
        }
        Action::WriteAuthority(authority, files) => (authority.secret(), files.clone()),
        Action::Issue(role, _) => {
            let (from, until) = validity(now, lifetimes.leaf, lifetimes.leaf)?;
            let signer = signer(found, Authority::Members);
            let made = make_leaf(role.name(), role.usage(), &signer, from, until)?;
            let mut files = trusted(found);
            files.insert(CERTIFICATE.to_owned(), made.certificate);
            files.insert(KEY.to_owned(), made.key);
            (role.secret(), files)
        }
        Action::Trust(secret, files) => (secret, files.clone()),
    })
}

/// An authority's certificate and key, as its Secret has them.
pub fn signer(found: &Found, authority: Authority) -> Pair {
    let file = |key| found.0.get(authority.secret()).map_or("", |files| text(files, key)).to_owned();
    Pair {
        certificate: file(CA_CERTIFICATE),
        key: file(CA_KEY),
    }
}
