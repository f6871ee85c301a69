//! Does what the plan asks for: turns an action into the content of one Secret. Makes keys, touches no cluster.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;

use super::pem::{Certificate, Pair, make_authority, make_leaf, read_all};
use super::plan::{
    AUTHORITY, Action, BUNDLE, CA_CERTIFICATE, CA_KEY, CERTIFICATE, Files, Found, KEY, Lifetimes, NEXT_CERTIFICATE, NEXT_KEY, bundle, text,
};

/// Clocks may differ by this much; short lives allow less.
const SKEW: Duration = Duration::from_secs(300);

/// The Secret to write, and what it is to hold.
pub fn perform(action: &Action, now: Timestamp, found: &Found, lifetimes: Lifetimes) -> Result<(&'static str, Files)> {
    let from = now.checked_sub(SKEW.min(lifetimes.leaf / 10)).context("read the clock")?;
    let until = |lifetime: Duration| now.checked_add(lifetime).context("add the certificate's lifetime to the clock");
    let authority = found.authority.clone().unwrap_or_default();
    Ok(match action {
        Action::MakeAuthority { trusted, .. } => {
            let made = make_authority(from, until(lifetimes.authority())?)?;
            let certificate = Certificate::read(&made.certificate)?;
            let kept = read_all(&trusted.concat());
            let files = [
                (CA_CERTIFICATE, made.certificate),
                (CA_KEY, made.key),
                (BUNDLE, bundle(std::iter::once(&certificate).chain(&kept))),
            ];
            (AUTHORITY, files.map(|(key, text)| (key.to_owned(), text)).into())
        }
        Action::MakeSuccessor => {
            let made = make_authority(from, until(lifetimes.authority())?)?;
            let trusted = read_all(&[text(&authority, CA_CERTIFICATE), &made.certificate, text(&authority, BUNDLE)].concat());
            let mut files = authority;
            files.insert(NEXT_CERTIFICATE.to_owned(), made.certificate);
            files.insert(NEXT_KEY.to_owned(), made.key);
            files.insert(BUNDLE.to_owned(), bundle(trusted.iter()));
            (AUTHORITY, files)
        }
        Action::WriteAuthority(files) => (AUTHORITY, files.clone()),
        Action::Issue(role, _) => {
            let signer = Pair {
                certificate: text(&authority, CA_CERTIFICATE).to_owned(),
                key: text(&authority, CA_KEY).to_owned(),
            };
            let made = make_leaf(*role, &signer, from, until(lifetimes.leaf)?)?;
            let files = [
                (CA_CERTIFICATE, text(&authority, BUNDLE).to_owned()),
                (CERTIFICATE, made.certificate),
                (KEY, made.key),
            ];
            (role.secret(), files.map(|(key, text)| (key.to_owned(), text)).into())
        }
        Action::Trust(role) => {
            let mut files = found.leaves.get(role).cloned().unwrap_or_default();
            files.insert(CA_CERTIFICATE.to_owned(), text(&authority, BUNDLE).to_owned());
            (role.secret(), files)
        }
    })
}
