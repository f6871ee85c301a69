//! Judges what TLS depends on: clocks, and certificates with their key and authority.

use super::some;
use crate::cluster::ClusterFacts;
use crate::finding::{Check, Finding};
use crate::node::{Certificates, NodeFacts};
use crate::unseen::Seen;

const DAY: i64 = 24 * 3600;
/// From here on a clock is told, and from here on it breaks things.
const SKEW: (i64, i64) = (3, 60);

/// Clock and certificates of a node, as far as they were asked for.
pub fn node(facts: &NodeFacts) -> Vec<Finding> {
    let clock = facts.clock.as_ref().map(clock);
    let certificates = facts.certificates.as_ref().map(|seen| match seen {
        Ok(certificates) => certificate(certificates, facts.now),
        Err(unseen) => unseen.failed(
            Check("trust", "certificate"),
            "the certificates of this node",
            "see that a controller runs with --issue-certificates, that it signs the CertificateSigningRequests of this node (kubectl get csr), and the log of the agent",
        ),
    });
    clock.into_iter().chain(certificates).collect()
}

/// Clock of this machine and certificates in secrets.
pub fn cluster(facts: &ClusterFacts) -> Vec<Finding> {
    let mut findings = vec![clock(&facts.clock)];
    if !facts.secrets.is_empty() {
        findings.push(secrets(facts));
    }
    findings
}

fn clock(skew: &Seen<i64>) -> Finding {
    let check = Check("trust", "clock");
    let skew = match skew {
        Ok(skew) => *skew,
        Err(unseen) => return unseen.warning(check, "the clock of the API server"),
    };
    let direction = if skew > 0 { "ahead of" } else { "behind" };
    let found = format!("the clock of this machine is {} s {direction} the API server's", skew.abs());
    let advice = "let both follow the same time server: timedatectl set-ntp true, and see chronyc tracking";
    match skew.abs() {
        seconds if seconds >= SKEW.1 => check.failed(format!("{found}: certificates and leases are misjudged"), advice),
        seconds if seconds >= SKEW.0 => check.warning(found, advice),
        _ => check.ok("the clock of this machine agrees with the API server's"),
    }
}

/// Certificates are renewed with a third of their life left; with less than a sixth, the renewal did not happen.
fn is_late(since: i64, until: i64, now: i64) -> bool {
    (until - now) * 6 < until - since
}

fn certificate(certificates: &Certificates, now: i64) -> Finding {
    let check = Check("trust", "certificate");
    let file = &certificates.file;
    let renew = "see that a controller runs with --issue-certificates, its log and that of the agent; an agent that is restarted asks for a new one if it needs one";
    let days = (certificates.not_after - now).div_euclid(DAY);
    if !certificates.key_matches {
        return check.failed(format!("the key beside {file} is not the certificate's"), renew);
    }
    if !certificates.signed {
        let names: Vec<&str> = certificates.authorities.iter().map(|authority| authority.name.as_str()).collect();
        return check.failed(
            format!("{file} was not signed by an authority that is trusted ({})", some(&names)),
            renew,
        );
    }
    if certificates.not_before > now {
        return check.failed(
            format!("{file} is not valid yet, for {} s", certificates.not_before - now),
            "set the clock of this machine",
        );
    }
    if certificates.not_after <= now {
        return check.failed(format!("{file} expired {} days ago", -days), renew);
    }
    if certificates
        .authorities
        .iter()
        .any(|authority| authority.ours && authority.not_after <= now)
    {
        return check.failed(format!("the authority that signed {file} has expired"), renew);
    }
    if is_late(certificates.not_before, certificates.not_after, now) {
        return check.warning(format!("{file} is valid for {days} more days and was not renewed"), renew);
    }
    check.ok(format!("{file} is valid for {days} more days, its key and its authority are right"))
}

fn secrets(facts: &ClusterFacts) -> Finding {
    let check = Check("trust", "secrets");
    let days = |until: i64| (until - facts.now).div_euclid(DAY);
    let short: Vec<String> = facts
        .secrets
        .iter()
        .filter(|(_, (since, until))| is_late(*since, *until, facts.now))
        .map(|(name, (_, until))| format!("{name} ({} days)", days(*until)))
        .collect();
    let expired = facts.secrets.values().any(|(_, until)| *until <= facts.now);
    let advice = "see that a controller runs with --issue-certificates, and its log; deleting a Secret makes it issue a new one";
    match (short.is_empty(), expired) {
        (true, _) => check.ok(format!("certificates in {} Secrets are valid", facts.secrets.len())),
        (false, true) => check.failed(format!("certificates have expired: {}", some(&short)), advice),
        (false, false) => check.warning(format!("certificates were not renewed: {}", some(&short)), advice),
    }
}
