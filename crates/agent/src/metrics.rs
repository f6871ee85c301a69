//! Counters and stage durations of the agent in the Prometheus text format. Verbs record, the health server renders.
//! Kept by hand: a dozen atomics need no registry.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, in microseconds.
const BOUNDS: [u64; 13] = [
    500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000, 30_000_000,
];
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

/// Everything the agent counts.
#[derive(Debug, Default)]
pub struct Metrics {
    stages: [Histogram; STAGES.len()],
    requests: [[AtomicU64; 2]; COMMANDS.len()],
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    sum: AtomicU64,
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
        for (histogram, duration) in self.stages.iter().zip(durations) {
            histogram.record(duration);
        }
    }

    /// Counts one request.
    pub fn record_request(&self, command: &str, success: bool) {
        if let Some(index) = COMMANDS.iter().position(|known| *known == command) {
            self.requests[index][usize::from(success)].fetch_add(1, Relaxed);
        }
    }

    /// The text for `/metrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        text.push_str("# HELP netloom_cni_requests_total CNI requests by command and result.\n");
        text.push_str("# TYPE netloom_cni_requests_total counter\n");
        for (command, counts) in COMMANDS.iter().zip(&self.requests) {
            for (result, count) in ["error", "ok"].iter().zip(counts) {
                let count = count.load(Relaxed);
                let _ = writeln!(
                    text,
                    "netloom_cni_requests_total{{command=\"{command}\",result=\"{result}\"}} {count}"
                );
            }
        }
        text.push_str("# HELP netloom_cni_add_seconds Duration of the stages of ADD.\n");
        text.push_str("# TYPE netloom_cni_add_seconds histogram\n");
        for (stage, histogram) in STAGES.iter().zip(&self.stages) {
            histogram.render(&mut text, stage);
        }
        text
    }
}

impl Histogram {
    fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            if micros <= bound {
                bucket.fetch_add(1, Relaxed);
            }
        }
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(micros, Relaxed);
    }

    fn render(&self, text: &mut String, stage: &str) {
        let name = "netloom_cni_add_seconds";
        let seconds = |micros: u64| micros as f64 / 1e6;
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            let (bound, count) = (seconds(bound), bucket.load(Relaxed));
            let _ = writeln!(text, "{name}_bucket{{stage=\"{stage}\",le=\"{bound}\"}} {count}");
        }
        let (count, sum) = (self.count.load(Relaxed), seconds(self.sum.load(Relaxed)));
        let _ = writeln!(text, "{name}_bucket{{stage=\"{stage}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(
            text,
            "{name}_sum{{stage=\"{stage}\"}} {sum}\n{name}_count{{stage=\"{stage}\"}} {count}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        let total = Duration::from_millis(100);
        let wait_port = Duration::from_millis(60);
        metrics.record_add(&Stages {
            wait_port,
            installed: Duration::from_millis(30),
            total,
            ..Stages::default()
        });
        metrics.record_request("ADD", true);
        let text = metrics.render();
        assert!(
            text.contains("netloom_cni_add_seconds_bucket{stage=\"agent\",le=\"0.005\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains("netloom_cni_add_seconds_bucket{stage=\"agent\",le=\"0.01\"} 1\n"),
            "{text}"
        );
        assert!(text.contains("netloom_cni_add_seconds_sum{stage=\"total\"} 0.1\n"), "{text}");
        assert!(
            text.contains("netloom_cni_requests_total{command=\"ADD\",result=\"ok\"} 1\n"),
            "{text}"
        );
    }
}
