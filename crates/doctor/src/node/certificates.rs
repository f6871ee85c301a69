//! Reads the three files of a directory of certificates as far as they can be judged: validity, issuer, key. Called by `gather`.

use netloom_ovsdb::client::Tls;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;

use crate::unseen::{Seen, Unseen};

/// What the files say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate's file, for people.
    pub file: String,
    /// Seconds since 1970 from which on it is valid.
    pub not_before: i64,
    /// Seconds since 1970 until which it is valid.
    pub not_after: i64,
    /// Whether the key is the certificate's.
    pub key_matches: bool,
    /// Whether an authority of the bundle signed it, if need be through the certificates that follow it.
    pub signed: bool,
    /// The authorities.
    pub authorities: Vec<Authority>,
}

/// A certificate of the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its subject.
    pub name: String,
    /// Seconds since 1970 until which it is valid.
    pub not_after: i64,
    /// Whether it signed ours.
    pub ours: bool,
}

/// Reads the files.
pub fn read(files: &Tls) -> Seen<Certificates> {
    let chain = chain(&files.cert)?;
    // Who signs nodes signs no server, so what clients are trusted by is a file of its own where there are nodes.
    let clients = files.ca.with_file_name(netloom_certificate::CLIENTS);
    let bundle = chain_of_authorities(if clients.exists() { &clients } else { &files.ca })?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| Unseen::Error(format!("{}: {error}", files.key.display())))?;
    let parsed = chain.iter().map(parse).collect::<Seen<Vec<_>>>()?;
    let authorities = bundle.iter().map(parse).collect::<Seen<Vec<_>>>()?;
    let Some(leaf) = parsed.first() else {
        return Err(Unseen::Error(format!("{} has no certificate", files.cert.display())));
    };
    // Each certificate of the chain is signed by the next, and some certificate by an authority.
    let linked = parsed.windows(2).take_while(|pair| signed_by(&pair[0], &pair[1])).count();
    let reach = &parsed[..=linked];
    let signs = |authority: &X509Certificate<'_>| reach.iter().any(|certificate| signed_by(certificate, authority));
    let key =
        rustls::crypto::ring::sign::any_supported_type(&key).map_err(|error| Unseen::Error(format!("{}: {error}", files.key.display())))?;
    let key_matches = key.public_key().is_some_and(|public| public.as_ref() == leaf.public_key().raw);
    Ok(Certificates {
        file: files.cert.display().to_string(),
        not_before: leaf.validity().not_before.timestamp(),
        not_after: leaf.validity().not_after.timestamp(),
        key_matches,
        signed: authorities.iter().any(signs),
        authorities: authorities
            .iter()
            .map(|authority| Authority {
                name: authority.subject().to_string(),
                not_after: authority.validity().not_after.timestamp(),
                ours: signs(authority),
            })
            .collect(),
    })
}

fn chain(path: &std::path::Path) -> Seen<Vec<CertificateDer<'static>>> {
    let wrong = |error: rustls_pki_types::pem::Error| Unseen::Error(format!("{}: {error}", path.display()));
    CertificateDer::pem_file_iter(path)
        .map_err(wrong)?
        .collect::<Result<_, _>>()
        .map_err(wrong)
}

fn chain_of_authorities(path: &std::path::Path) -> Seen<Vec<CertificateDer<'static>>> {
    let bundle = chain(path)?;
    if bundle.is_empty() {
        return Err(Unseen::Error(format!("{} has no certificate", path.display())));
    }
    Ok(bundle)
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Seen<X509Certificate<'a>> {
    let (_, certificate) = parse_x509_certificate(der).map_err(|error| Unseen::Error(format!("read a certificate: {error}")))?;
    Ok(certificate)
}

fn signed_by(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    certificate.issuer() == issuer.subject() && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn openssl(directory: &Path, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn authority(directory: &Path, name: &str) {
        openssl(
            directory,
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=netloom -keyout {name}.key -out {name}.crt"
            ),
        );
    }

    #[test]
    fn key_authority_and_validity_are_read() {
        let files = tempfile::tempdir().unwrap();
        let directory = files.path();
        authority(directory, "ca");
        authority(directory, "other");
        openssl(
            directory,
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=agent -keyout tls.key -out tls.csr",
        );
        openssl(
            directory,
            "x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -out tls.crt",
        );
        let files = |ca: &str, key: &str| Tls {
            ca: directory.join(ca),
            cert: directory.join("tls.crt"),
            key: directory.join(key),
        };
        let right = read(&files("ca.crt", "tls.key")).unwrap();
        let stranger = read(&files("other.crt", "tls.key")).unwrap();
        let mixed_up = read(&files("ca.crt", "other.key")).unwrap();
        let absent = read(&files("absent.crt", "tls.key"));

        assert!(right.key_matches && right.signed);
        assert_eq!(right.not_after - right.not_before, 90 * 24 * 3600);
        assert_eq!(right.authorities.len(), 1);
        assert!(right.authorities[0].ours && right.authorities[0].name == "CN=netloom");
        assert!(
            stranger.key_matches && !stranger.signed,
            "an authority of the same name is not the same authority"
        );
        assert!(!mixed_up.key_matches && mixed_up.signed);
        assert!(matches!(absent, Err(Unseen::Error(why)) if why.contains("absent.crt")));
    }
}
