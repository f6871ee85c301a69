//! Certificates as text and as files: what the controller, which issues them, and the agent, which asks for one, agree on.
//!
//! ```text
//! authority of the members ──signs──► databases and northd (server, client), controller (client)
//! authority of the nodes   ──signs──► one certificate for each node (client)
//! ```
//!
//! A database server is trusted only by the authority of the members, which signs no node. The Northbound database and the members
//! trust the same authority only, so that what a node has opens nothing there.

pub mod files;
pub mod pem;
pub mod request;

use std::collections::BTreeMap;
use std::path::Path;

use netloom_ovsdb::client::Tls;

/// The content of a Secret, or of a directory: texts by the names of files.
pub type Files = BTreeMap<String, String>;

/// Who servers, and members among themselves, are trusted by. In the Secret of an authority: its own certificate.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// Who clients of the Southbound's relays are trusted by.
pub const CLIENTS: &str = "clients.crt";
/// One's own certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// The private key of it.
pub const KEY: &str = "tls.key";

/// Who signs the requests of nodes: the name in their `CertificateSigningRequest`.
pub const NODE_SIGNER: &str = "netloom.io/node";

/// The three files of a directory of certificates.
pub fn in_directory(directory: &Path) -> Tls {
    Tls {
        ca: directory.join(CA_CERTIFICATE),
        cert: directory.join(CERTIFICATE),
        key: directory.join(KEY),
    }
}

/// A file of a Secret, empty if it is not there.
pub fn text<'a>(files: &'a Files, key: &str) -> &'a str {
    files.get(key).map_or("", String::as_str)
}
