//! What the agent counts, and how long the stages of ADD take, in the Prometheus text format. Verbs record, the health server asks for the text.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the histogram's buckets, in seconds.
const BOUNDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// The stages of ADD; `agent` is the total without the two waits for others.
const STAGES: [&str; 6] = ["wait_port", "link", "ovs_commit", "installed", "agent", "total"];
/// The verbs counted.
const COMMANDS: [&str; 5] = ["ADD", "DEL", "CHECK", "GC", "STATUS"];

/// How long the stages of one ADD took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    /// Waiting for the controller and OVN to assign the port.
    pub wait_port: Duration,
    /// Our own work on links, in the namespace and on the host.
    pub link: Duration,
    /// The transaction on the local database.
    pub ovs_commit: Duration,
    /// Waiting for ovn-controller and vswitchd.
    pub installed: Duration,
    /// From request to reply.
    pub total: Duration,
}

impl Stages {
    /// The agent's own part: everything but the waits for others.
    pub fn agent(&self) -> Duration {
        self.total.saturating_sub(self.wait_port).saturating_sub(self.installed)
    }
}

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Everything the agent counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels<2>, Counter>,
    stages: Family<Labels<1>, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("netloom_cni");
        let requests = Family::<Labels<2>, Counter>::default();
        registry.register("requests", "CNI requests by command and result", requests.clone());
        let stages = Family::new_with_constructor((|| Histogram::new(BOUNDS)) as fn() -> Histogram);
        registry.register("add_seconds", "Duration of the stages of ADD", stages.clone());
        let metrics = Self {
            registry,
            requests,
            stages,
        };
        // Shown from the start, so that a rate can be taken of the first request too.
        for command in COMMANDS {
            for result in ["error", "ok"] {
                drop(metrics.requests.get_or_create(&[("command", command), ("result", result)]));
            }
        }
        for stage in STAGES {
            drop(metrics.stages.get_or_create(&[("stage", stage)]));
        }
        metrics
    }
}

impl Metrics {
    /// Records the stages of one ADD.
    pub fn record_add(&self, stages: &Stages) {
        let durations = [
            stages.wait_port,
            stages.link,
            stages.ovs_commit,
            stages.installed,
            stages.agent(),
            stages.total,
        ];
        for (stage, duration) in STAGES.into_iter().zip(durations) {
            self.stages.get_or_create(&[("stage", stage)]).observe(duration.as_secs_f64());
        }
    }

    /// Counts one request.
    pub fn record_request(&self, command: &str, success: bool) {
        if let Some(command) = COMMANDS.into_iter().find(|known| *known == command) {
            let result = if success { "ok" } else { "error" };
            self.requests.get_or_create(&[("command", command), ("result", result)]).inc();
        }
    }

    /// The text of `/metrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_requests_are_shown_by_their_labels() {
        let metrics = Metrics::default();
        metrics.record_add(&Stages {
            wait_port: Duration::from_millis(60),
            installed: Duration::from_millis(30),
            total: Duration::from_millis(100),
            ..Stages::default()
        });
        metrics.record_request("ADD", true);
        metrics.record_request("UNKNOWN", true);
        let text = metrics.text();
        for line in [
            "# HELP netloom_cni_requests CNI requests by command and result.",
            "# HELP netloom_cni_add_seconds Duration of the stages of ADD.",
            "netloom_cni_add_seconds_bucket{le=\"0.005\",stage=\"agent\"} 0",
            "netloom_cni_add_seconds_bucket{le=\"0.01\",stage=\"agent\"} 1",
            "netloom_cni_add_seconds_bucket{le=\"+Inf\",stage=\"agent\"} 1",
            "netloom_cni_add_seconds_sum{stage=\"total\"} 0.1",
            "netloom_cni_requests_total{command=\"ADD\",result=\"ok\"} 1",
            "netloom_cni_requests_total{command=\"ADD\",result=\"error\"} 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "no `{line}` in\n{text}");
        }
        assert!(!text.contains("UNKNOWN"), "{text}");
    }
}
