//! What the controller counts, in the Prometheus text format.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// All metrics and the readiness they reflect.
pub struct Metrics {
    registry: Registry,
    ready: AtomicBool,
    connected: Gauge,
    active: Gauge,
    units: Gauge,
    problems: Gauge,
    operations: Counter,
    refused: Counter,
    plan: Histogram,
    commit: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let mut metrics = Self {
            registry: Registry::with_prefix("netloom_controller"),
            ready: AtomicBool::new(false),
            connected: Gauge::default(),
            active: Gauge::default(),
            units: Gauge::default(),
            problems: Gauge::default(),
            operations: Counter::default(),
            refused: Counter::default(),
            plan: seconds(),
            commit: seconds(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "northbound_connected",
            "1 while connected to the Northbound database",
            metrics.connected.clone(),
        );
        registry.register("active", "1 while this controller is the one that writes", metrics.active.clone());
        registry.register("units", "Units with rows or problems", metrics.units.clone());
        registry.register("problems", "Problems that users have to fix", metrics.problems.clone());
        registry.register(
            "operations",
            "Operations committed to the Northbound database",
            metrics.operations.clone(),
        );
        registry.register(
            "commits_failed",
            "Transactions that were refused or interrupted",
            metrics.refused.clone(),
        );
        registry.register(
            "plan_seconds",
            "Time to compile and compare one batch of changes",
            metrics.plan.clone(),
        );
        registry.register(
            "commit_seconds",
            "Time from sending a transaction to its reply",
            metrics.commit.clone(),
        );
        metrics
    }
}

impl Metrics {
    /// The connection and whether this controller writes.
    pub fn set_role(&self, connected: bool, active: bool) {
        self.connected.set(i64::from(connected));
        self.active.set(i64::from(active));
    }

    /// Whether everything was listed and the database is connected.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Whether everything was listed and the database is connected.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// How much there is.
    pub fn set_size(&self, units: usize, problems: usize) {
        self.units.set(i64::try_from(units).unwrap_or(i64::MAX));
        self.problems.set(i64::try_from(problems).unwrap_or(i64::MAX));
    }

    /// A batch was compiled and compared.
    pub fn planned(&self, took: Duration) {
        self.plan.observe(took.as_secs_f64());
    }

    /// A transaction of this many operations is on its way.
    pub fn committing(&self, operations: usize) {
        self.operations.inc_by(operations as u64);
    }

    /// A transaction was answered.
    pub fn committed(&self, took: Duration, accepted: bool) {
        self.commit.observe(took.as_secs_f64());
        if !accepted {
            self.refused.inc();
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
