//! Certificates and keys as PEM text: making them, and reading what a Secret holds. Keys are ECDSA P-256.
//!
//! Called by the controller, which issues, by its plan, which only reads, and by the agent, which judges its own.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

/// What a certificate says of itself, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Its PEM text, normalised.
    pub text: String,
    /// The common name of its subject.
    pub name: String,
    /// When it starts to be valid.
    pub from: Timestamp,
    /// When it is no longer valid.
    pub until: Timestamp,
    /// Whether it is accepted as that of a server.
    pub serves: bool,
    der: Vec<u8>,
}

impl Certificate {
    /// Reads the first certificate of a text.
    pub fn read(text: &str) -> Result<Self> {
        read_all(text).into_iter().next().context("there is no certificate in it")
    }

    fn of_der(der: &[u8]) -> Result<Self> {
        let (_, parsed) = parse_x509_certificate(der).context("read the certificate")?;
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let instant = |time: ASN1Time| Timestamp::from_second(time.timestamp()).context("read the validity");
        let usage = parsed.extended_key_usage().context("read what it is for")?;
        Ok(Certificate {
            text: encode(der),
            name: name.unwrap_or_default().to_owned(),
            from: instant(parsed.validity().not_before)?,
            until: instant(parsed.validity().not_after)?,
            serves: usage.is_none_or(|usage| usage.value.server_auth || usage.value.any),
            der: der.to_owned(),
        })
    }

    /// Whether an authority signed it.
    pub fn is_signed_by(&self, authority: &Certificate) -> bool {
        let check = || -> Result<()> {
            let (_, ours) = parse_x509_certificate(&self.der)?;
            let (_, theirs) = parse_x509_certificate(&authority.der)?;
            ensure!(ours.issuer() == theirs.subject(), "another issuer");
            Ok(ours.verify_signature(Some(theirs.public_key()))?)
        };
        check().is_ok()
    }

    /// Whether a private key belongs to it.
    pub fn has_key(&self, key: &str) -> bool {
        let same = |key: &KeyPair| {
            let (_, parsed) = parse_x509_certificate(&self.der).ok()?;
            Some(parsed.public_key().raw == key.subject_public_key_info())
        };
        KeyPair::from_pem(key).ok().and_then(|key| same(&key)).unwrap_or(false)
    }

    /// The moment at which this part of its life is over.
    pub fn after(&self, numerator: i64, denominator: i64) -> Timestamp {
        let life = self.until.as_second() - self.from.as_second();
        Timestamp::from_second(self.from.as_second() + life / denominator * numerator).unwrap_or(self.until)
    }
}

/// Every certificate of a text that can be read; what else is in it does not matter.
pub fn read_all(text: &str) -> Vec<Certificate> {
    let blocks = Pem::iter_from_buffer(text.as_bytes()).map_while(Result::ok);
    let certificates = blocks.filter(|block| block.label == "CERTIFICATE");
    certificates.filter_map(|block| Certificate::of_der(&block.contents).ok()).collect()
}

fn encode(der: &[u8]) -> String {
    use k8s_openapi::ByteString;
    // Base64 as the Kubernetes API writes it, in the lines PEM wants.
    let quoted = serde_json::to_string(&ByteString(der.to_owned())).unwrap_or_default();
    let base64 = quoted.trim_matches('"').as_bytes();
    let lines: Vec<_> = base64.chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// An authority. Its name has its purpose and the time in it: several are trusted at once, and verifiers look them up by name.
pub fn make_authority(purpose: &str, from: Timestamp, until: Timestamp) -> Result<Pair> {
    let mut params = params(&format!("netloom {purpose} authority {from}"), from, until)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().context("make a key")?;
    let certificate = params.self_signed(&key).context("sign the authority's certificate")?;
    Ok(Pair {
        certificate: Certificate::of_der(certificate.der())?.text,
        key: key.serialize_pem(),
    })
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To connect to servers. Its holder is not accepted as a server.
    Client,
    /// To serve, and to connect to other servers.
    ServerAndClient,
}

impl Usage {
    fn purposes(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::ServerAndClient => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

/// A certificate with a key of its own, no longer valid than its authority's.
pub fn make_leaf(name: &str, usage: Usage, authority: &Pair, from: Timestamp, until: Timestamp) -> Result<Pair> {
    let key = KeyPair::generate().context("make a key")?;
    Ok(Pair {
        certificate: sign(name, usage, &key, authority, from, until)?,
        key: key.serialize_pem(),
    })
}

/// A certificate for a public key, no longer valid than its authority's. Only the key is its holder's choice.
pub fn sign(name: &str, usage: Usage, key: &impl PublicKeyData, authority: &Pair, from: Timestamp, until: Timestamp) -> Result<String> {
    let signer = Certificate::read(&authority.certificate)?;
    let (from, until) = (from.max(signer.from), until.min(signer.until));
    if from >= until {
        bail!("the authority's certificate is valid from {} to {} only", signer.from, signer.until);
    }
    let mut params = params(name, from, until)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usage.purposes();
    params.use_authority_key_identifier_extension = true;
    let issuer = KeyPair::from_pem(&authority.key).context("read the authority's key")?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, issuer).context("read the authority's certificate")?;
    let certificate = params.signed_by(key, &issuer).context("sign the certificate")?;
    Ok(Certificate::of_der(certificate.der())?.text)
}

fn params(name: &str, from: Timestamp, until: Timestamp) -> Result<CertificateParams> {
    let time = |at: Timestamp| ASN1Time::from_timestamp(at.as_second()).map_err(|error| anyhow!("{at} cannot be written: {error}"));
    let mut params = CertificateParams::default();
    params.not_before = time(from)?.to_datetime();
    params.not_after = time(until)?.to_datetime();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
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
