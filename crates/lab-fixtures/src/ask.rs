//! Questions to a service and their answers, by the lab's own client: many connections in one process, one line each.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use netloom_lab::Shell;
use netloom_lab::echo::client::Attempt;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, which not every kernel has.
    Sctp,
}

impl Protocol {
    /// What this kernel speaks. The kernel of the test VM has SCTP, so there it must be tested.
    pub fn available() -> Vec<Self> {
        let sctp = Path::new("/proc/sys/net/sctp").exists();
        assert!(
            sctp || !kernel_datapath(),
            "the kernel tier is where SCTP is tested, and this kernel has none"
        );
        if kernel_datapath() {
            vec![Self::Tcp, Self::Udp, Self::Sctp]
        } else {
            vec![Self::Tcp, Self::Udp]
        }
    }

    /// As service ports of these tests are named.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// Whether this runs where the kernel's datapath is tested.
pub fn kernel_datapath() -> bool {
    std::env::var("NETLOOM_DATAPATH").is_ok_and(|datapath| datapath == "kernel")
}

/// What to ask.
#[derive(Clone, Debug)]
pub struct Ask {
    protocol: Protocol,
    target: String,
    count: usize,
    interval_ms: u64,
    timeout_ms: u64,
    source: Option<IpAddr>,
    source_port: Option<u16>,
    size: usize,
    keep: bool,
    /// When to stop, as a condition on `$line`, and after how many seconds in any case.
    until: Option<(String, u64)>,
}

impl Ask {
    /// One question.
    pub fn new(protocol: Protocol, address: IpAddr, port: u16) -> Self {
        Self {
            protocol,
            target: std::net::SocketAddr::new(address, port).to_string(),
            count: 1,
            interval_ms: 0,
            // SCTP repeats a lost first packet after 10 seconds, TCP after 1, 3 and 7.
            timeout_ms: 20_000,
            source: None,
            source_port: None,
            size: 2,
            keep: false,
            until: None,
        }
    }

    /// So many, each over its own connection.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// From the start of one to the start of the next.
    pub fn interval_ms(mut self, interval: u64) -> Self {
        self.interval_ms = interval;
        self
    }

    /// How long to wait for each answer.
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.timeout_ms = timeout;
        self
    }

    /// From this address.
    pub fn source(mut self, address: IpAddr) -> Self {
        self.source = Some(address);
        self
    }

    /// Always from the same port.
    pub fn source_port(mut self, port: u16) -> Self {
        self.source_port = Some(port);
        self
    }

    /// All over one connection.
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// So many bytes, which come back with the answer.
    pub fn size(mut self, size: usize) -> Self {
        self.size = size;
        self
    }

    /// Again and again until there is an answer: nodes learn of a service each in its own time.
    pub fn until_answered(self) -> Self {
        self.until_line(r#"[[ $line == *'"outcome":"ok"'* ]]"#)
    }

    /// Again and again until it is refused.
    pub fn until_refused(self) -> Self {
        self.until_line(r#"[[ $line == *'"outcome":"refused"'* ]]"#)
    }

    /// Again and again until there is no answer.
    pub fn until_lost(self) -> Self {
        self.until_line(r#"[[ $line != *'"outcome":"ok"'* ]]"#)
    }

    /// Again and again until a file exists.
    pub fn until_file(mut self, path: &str) -> Self {
        self.until = Some((format!("[ -e {path} ]"), 300));
        self
    }

    fn until_line(mut self, condition: &str) -> Self {
        (self.until, self.interval_ms, self.timeout_ms) = (Some((condition.to_owned(), 30)), 20, 500);
        self
    }
}

/// The kernel's connection tracking takes the tag of the last answer to an INIT for that of the association. An INIT repeated after three
/// seconds, as is the default, while the first one is only late, gets a second answer, and the association is reset; an emulated machine
/// may well be that late.
const PATIENT_SCTP: &str = "echo 10000 > /proc/sys/net/sctp/rto_initial";

/// Asks from a place; every attempt is told, in order.
pub fn ask(shell: &Shell<'_>, ask: &Ask) -> Vec<Attempt> {
    let count = if ask.until.is_some() { 0 } else { ask.count };
    let mut client = format!(
        "netloom lab ask {} --protocol {} --count {count} --interval-ms {} --timeout-ms {} --size {} --json",
        ask.target,
        ask.protocol.name().to_uppercase(),
        ask.interval_ms,
        ask.timeout_ms,
        ask.size
    );
    if ask.keep {
        client += " --keep";
    }
    if let Some(address) = ask.source {
        client += &format!(" --source {address}");
    }
    if let Some(port) = ask.source_port {
        client += &format!(" --source-port {port}");
    }
    let script = match &ask.until {
        None => format!("{client} || true"),
        Some((condition, seconds)) => {
            format!("while read -r line; do echo \"$line\"; {condition} && exit 0; done < <(exec timeout {seconds} {client}); true")
        }
    };
    let script = if ask.protocol == Protocol::Sctp {
        format!("{PATIENT_SCTP} && {{ {script}; }}")
    } else {
        script
    };
    let said = shell
        .run(&["bash", "-c", &script])
        .unwrap_or_else(|error| panic!("{ask:?}: {error:#}"));
    let attempts: Vec<Attempt> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    if ask.until.is_none() {
        assert_eq!(attempts.len(), ask.count, "{ask:?}");
    }
    attempts
}

/// Names of those who answered.
pub fn names(attempts: &[Attempt]) -> BTreeSet<String> {
    attempts
        .iter()
        .filter(|attempt| attempt.outcome == "ok")
        .map(|attempt| attempt.pod.clone())
        .collect()
}

/// Attempts that were not answered.
pub fn failed(attempts: &[Attempt]) -> Vec<&Attempt> {
    attempts.iter().filter(|attempt| attempt.outcome != "ok").collect()
}

/// Whether the last attempt was answered.
pub fn answered(attempts: &[Attempt]) -> bool {
    attempts.last().is_some_and(|attempt| attempt.outcome == "ok")
}
