//! The kernel's side of the node: links, addresses, routes and rules by netlink, device settings, nftables, tracked
//! connections, a pod's namespace, checksum offload, the guard of pods and the fence of the userspace datapath. Nothing here knows CNI,
//! OVN or Kubernetes.

pub mod announcement;
pub mod conntrack;
pub mod fence;
pub mod guard;
pub mod link_config;
pub mod netlink;
pub mod netns;
pub mod nft;
pub mod offload;
pub mod route;
pub mod sysctl;
pub mod tool;
pub mod watch;

/// A kernel operation that failed; the text names the operation and the object, and already says the cause, which is
/// therefore not a `source` as well.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A netlink request was refused.
    #[error("cannot {operation}: {}", reason(cause))]
    Netlink {
        /// Verb and object.
        operation: String,
        /// The kernel's answer.
        cause: rtnetlink::Error,
    },
    /// A file, socket or child process failed.
    #[error("cannot {operation}: {cause}")]
    Io {
        /// Verb and object.
        operation: String,
        /// The reason.
        cause: std::io::Error,
    },
    /// `nft` refused our rules.
    #[error("cannot {operation}: nft says: {output}")]
    Nft {
        /// Verb and object.
        operation: String,
        /// What `nft` printed.
        output: String,
    },
}

impl NetError {
    /// Wraps an I/O error with the operation that met it.
    pub fn io(operation: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Io {
            operation: operation.into(),
            cause,
        }
    }

    /// Wraps a netlink error with the operation that met it.
    pub fn netlink(operation: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> Self {
        move |cause| Self::Netlink {
            operation: operation.into(),
            cause,
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Netlink {
                cause: rtnetlink::Error::NetlinkError(message),
                ..
            } => Some(-message.raw_code()),
            Self::Io { cause, .. } => cause.raw_os_error(),
            _ => None,
        }
    }
}

/// The kernel's words without netlink's wrapping.
fn reason(error: &rtnetlink::Error) -> String {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io().to_string(),
        other => other.to_string(),
    }
}
