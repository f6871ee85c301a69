//! What plugin and agent agree on about the requests of a container runtime.

/// Where the agent listens unless the network configuration's `socket` says otherwise.
pub const SOCKET: &str = "/run/netloom/cni.sock";

/// A version of the specification that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.3.1
    V0_3_1,
    /// 0.4.0
    V0_4_0,
    /// 1.0.0
    V1_0_0,
    /// 1.1.0
    V1_1_0,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::NEWEST];
    /// The newest.
    pub const NEWEST: Self = Self::V1_1_0;

    /// As written in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version a document names; none if it is not spoken.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }
}

/// The codes of errors; those below 100 are the specification's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// The version asked for is not supported.
    IncompatibleVersion = 1,
    /// The environment (here: `CNI_ARGS`, `CNI_NETNS`) is missing or malformed.
    InvalidEnvironment = 4,
    /// A system call failed.
    Io = 5,
    /// The request is not JSON.
    Decode = 6,
    /// The network configuration is not usable.
    InvalidConfig = 7,
    /// A passing condition; the runtime should retry.
    TryAgain = 11,
    /// STATUS: pods cannot be attached at the moment.
    NotAvailable = 50,
    /// CHECK: the interface is missing in the pod, or is not as it should be.
    Interface = 100,
    /// CHECK: addresses differ.
    Addresses = 101,
    /// CHECK: routes differ.
    Routes = 102,
    /// CHECK: the port is missing in Open vSwitch, or is not as it should be.
    Switch = 103,
    /// CHECK: OVN has not installed the port.
    NotInstalled = 104,
    /// CHECK: `prevResult` does not agree with what is there.
    PreviousResult = 105,
    /// The controller wrote something the agent cannot use.
    Assignment = 106,
}
