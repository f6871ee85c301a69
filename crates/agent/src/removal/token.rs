//! Which installation this agent belongs to: the UID of its service account, from the token that its pod was given. A
//! new installation has a new one, so a request to remove the old does not concern it.

use serde::Deserialize;

/// Where a pod finds its token.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

#[derive(Deserialize)]
struct Claims {
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
struct Kubernetes {
    serviceaccount: ServiceAccount,
}

#[derive(Deserialize)]
struct ServiceAccount {
    uid: String,
}

/// The UID of this pod's service account; none outside a pod.
pub fn service_account() -> Option<String> {
    uid_of(&std::fs::read_to_string(TOKEN).ok()?)
}

/// The claim in the middle part of a token. Nothing is verified: it is our own.
fn uid_of(token: &str) -> Option<String> {
    let claims = decode(token.trim().split('.').nth(1)?)?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Some(claims.kubernetes.serviceaccount.uid)
}

/// Base64 for URLs, without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut held) = (0u32, 0u32);
    let mut bytes = Vec::with_capacity(text.len());
    for symbol in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == symbol)?;
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_is_found() {
        // {"kubernetes.io":{"serviceaccount":{"name":"a?","uid":"u-1"}}}
        let token = "e30.eyJrdWJlcm5ldGVzLmlvIjp7InNlcnZpY2VhY2NvdW50Ijp7Im5hbWUiOiJhPyIsInVpZCI6InUtMSJ9fX0.c2ln";
        assert_eq!(uid_of(token).as_deref(), Some("u-1"));
        assert_eq!(uid_of("nonsense"), None);
    }

    #[test]
    fn bytes_of_every_length_are_read() {
        assert_eq!(decode("Zg").as_deref(), Some(&b"f"[..]));
        assert_eq!(decode("Zm8").as_deref(), Some(&b"fo"[..]));
        assert_eq!(decode("Zm9v").as_deref(), Some(&b"foo"[..]));
        assert_eq!(decode("_-A").as_deref(), Some(&[0xff, 0xe0][..]));
        assert_eq!(decode("!"), None);
    }
}
