use std::fmt;

/// Who translates the addresses of services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceMode {
    /// OVN's load balancers, in the switch of the client's node. Packets of the host reach them through the node's service port.
    #[default]
    Native,
    /// kube-proxy on the client's node. Packets of pods reach it through the node's service port.
    KubeProxy,
}

impl ServiceMode {
    /// Its name in specs and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// The mode with this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Native, Self::KubeProxy].into_iter().find(|mode| mode.as_str() == text)
    }
}

impl fmt::Display for ServiceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
