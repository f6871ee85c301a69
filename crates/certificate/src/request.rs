//! A request for a certificate: made by an agent, which keeps the key, and read by the controller, which takes nothing from it but
//! the public key and checks that the one who asks has the private one.

use anyhow::{Context as _, Result, ensure};
use rcgen::{CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, KeyPair, PublicKey};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

/// What is sent, and what stays.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request, PEM.
    pub text: String,
    /// The private key, PEM.
    pub key: String,
}

/// Makes a key, and a request for a certificate with this name.
pub fn make(name: &str) -> Result<Request> {
    let key = KeyPair::generate().context("make a key")?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let request = params.serialize_request(&key).context("sign the request")?;
    Ok(Request {
        text: request.pem().context("write the request")?,
        key: key.serialize_pem(),
    })
}

/// The public key of a request for exactly this name, signed with the private one.
pub fn read(text: &str, name: &str) -> Result<PublicKey> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).context("read the request")?;
    check(&pem, name)?;
    Ok(CertificateSigningRequestParams::from_pem(text)
        .context("read the request")?
        .public_key)
}

fn check(pem: &Pem, name: &str) -> Result<()> {
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).context("read the request")?;
    request.verify_signature().context("check the signature of the request")?;
    let subject = &request.certification_request_info.subject;
    let mut names = subject.iter_common_name();
    let asked = names.next().and_then(|name| name.as_str().ok()).unwrap_or_default();
    ensure!(
        asked == name && subject.iter_attributes().count() == 1,
        "it asks for the subject {subject}, and not for CN={name}"
    );
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::pem::{Certificate, Usage, make_authority, sign};

    #[test]
    fn what_is_signed_has_the_key_of_the_request_and_serves_nothing() {
        let from = "2030-01-01T00:00:00Z".parse().unwrap();
        let until = "2031-01-01T00:00:00Z".parse().unwrap();
        let authority = make_authority("test", from, until).unwrap();
        let request = make("node1").unwrap();
        let key = read(&request.text, "node1").unwrap();
        let signed = sign("node1", Usage::Client, &key, &authority, from, until).unwrap();
        let signed = Certificate::read(&signed).unwrap();
        assert!(signed.has_key(&request.key));
        assert!(signed.is_signed_by(&Certificate::read(&authority.certificate).unwrap()));
        assert_eq!((signed.name.as_str(), signed.serves), ("node1", false));
    }

    #[test]
    fn a_request_for_another_name_or_without_its_key_is_refused() {
        let request = make("node1").unwrap();
        assert!(read(&request.text, "node2").unwrap_err().to_string().contains("CN=node1"));
        assert!(read("nonsense", "node1").is_err());
        // Another's public key, with a signature that is not its own.
        let mut damaged = request.text.clone();
        let at = damaged.find("\n-----END").unwrap() - 8;
        let other = if &damaged[at..=at] == "A" { "B" } else { "A" };
        damaged.replace_range(at..=at, other);
        assert!(read(&damaged, "node1").is_err());
    }
}
