//! Makes a stream of bytes to a remote: unix socket, TCP, or TLS.
//!
//! Called by the task for every attempt, so renewed certificate files are picked up by the next connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::{ConnectError, Remote, Tls};

/// A connected stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, including the TLS handshake, within the limit.
pub(super) async fn connect(remote: Remote, tls: Option<Tls>, limit: Duration) -> Result<Box<dyn Stream>, ConnectError> {
    let attempt = async {
        match &remote {
            Remote::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(ConnectError::Connect)?) as _),
            Remote::Tcp(address) => Ok(Box::new(tcp(address).await?) as _),
            Remote::Ssl(address) => {
                let config = config(
                    tls.as_ref()
                        .ok_or_else(|| ConnectError::Tls("an `ssl:` remote needs CA, certificate and key files".to_owned()))?,
                )?;
                let name = server_name(address)?;
                let stream = tcp(address).await?;
                let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
                Ok(Box::new(stream.map_err(ConnectError::Connect)?) as _)
            }
        }
    };
    tokio::time::timeout(limit, attempt)
        .await
        .unwrap_or(Err(ConnectError::Timeout(limit)))
}

async fn tcp(address: &str) -> Result<TcpStream, ConnectError> {
    let connect = async || -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        // Requests are small and each waits for its answer.
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connect().await.map_err(ConnectError::Connect)
}

fn server_name(address: &str) -> Result<ServerName<'static>, ConnectError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host.clone()).map_err(|error| ConnectError::Tls(format!("host name {host}: {error}")))
}

fn config(files: &Tls) -> Result<ClientConfig, ConnectError> {
    let tls = |file: &std::path::Path, error: &dyn std::fmt::Display| ConnectError::Tls(format!("read {}: {error}", file.display()));
    let certificates = |file: &std::path::Path| {
        CertificateDer::pem_file_iter(file)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|error| tls(file, &error))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.ca)? {
        roots.add(authority).map_err(|error| tls(&files.ca, &error))?;
    }
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| tls(&files.key, &error))?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| tls(&files.ca, &error))?;
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        .with_client_auth_cert(chain, key)
        .map_err(|error| tls(&files.cert, &error))
}

/// Trusts every certificate of the authority, whatever name it carries.
///
/// The certificates of OVSDB servers name no hosts: the authority is the cluster's own. One that is for clients only is refused.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The chain is checked before the name, so a wrong name is all that can be wrong here.
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
