//! The addresses of servers, in the notation of the OVSDB tools: `unix:/path`, `tcp:1.2.3.4:6641`, `ssl:[::1]:6641`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    /// A unix socket.
    Unix(PathBuf),
    /// Plain TCP to `host:port`.
    Tcp(String),
    /// TLS to `host:port`.
    Ssl(String),
}

impl FromStr for Remote {
    type Err = InvalidRemote;

    fn from_str(text: &str) -> Result<Self, InvalidRemote> {
        let invalid = |problem| InvalidRemote {
            text: text.to_owned(),
            problem,
        };
        match text.split_once(':') {
            Some(("unix", "")) => Err(invalid("the path is missing")),
            Some(("unix", path)) => Ok(Remote::Unix(path.into())),
            Some(("tcp", address)) => Ok(Remote::Tcp(host_and_port(address).map_err(invalid)?)),
            Some(("ssl", address)) => Ok(Remote::Ssl(host_and_port(address).map_err(invalid)?)),
            _ => Err(invalid("it starts with none of `unix:`, `tcp:` and `ssl:`")),
        }
    }
}

fn host_and_port(address: &str) -> Result<String, &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("the port is missing")?;
    port.parse::<u16>().map_err(|_| "the port is not a number up to 65535")?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    match host {
        "" => Err("the host is missing"),
        host if host.contains(':') && !bracketed => Err("an IPv6 address needs brackets"),
        _ => Ok(address.to_owned()),
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Unix(path) => write!(f, "unix:{}", path.display()),
            Remote::Tcp(address) => write!(f, "tcp:{address}"),
            Remote::Ssl(address) => write!(f, "ssl:{address}"),
        }
    }
}

/// The addresses of the servers of one database, at least one. Parsed from a list separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remotes(Vec<Remote>);

impl Remotes {
    /// The remotes in the order in which they are tried.
    pub fn iter(&self) -> std::slice::Iter<'_, Remote> {
        self.0.iter()
    }

    /// The number of remotes, at least one.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The remote at this place, counting round and round.
    pub(super) fn cycle(&self, index: usize) -> Remote {
        self.0[index % self.0.len()].clone()
    }
}

impl From<Remote> for Remotes {
    fn from(remote: Remote) -> Self {
        Remotes(vec![remote])
    }
}

impl TryFrom<Vec<Remote>> for Remotes {
    type Error = InvalidRemote;

    fn try_from(remotes: Vec<Remote>) -> Result<Self, InvalidRemote> {
        if remotes.is_empty() {
            let problem = "the list is empty";
            return Err(InvalidRemote {
                text: String::new(),
                problem,
            });
        }
        Ok(Remotes(remotes))
    }
}

impl FromStr for Remotes {
    type Err = InvalidRemote;

    fn from_str(text: &str) -> Result<Self, InvalidRemote> {
        text.split(',')
            .map(|remote| remote.trim().parse())
            .collect::<Result<_, _>>()
            .map(Remotes)
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(index, remote)| write!(f, "{}{remote}", if index == 0 { "" } else { "," }))
    }
}

/// Text that is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid remote `{text}`: {problem}; expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")]
pub struct InvalidRemote {
    text: String,
    problem: &'static str,
}
