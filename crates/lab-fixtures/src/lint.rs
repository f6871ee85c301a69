//! The linter on what a lab's Northbound database holds: it runs at the end of every test that has a lab and passes so far.

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use netloom_lab::Lab;
use netloom_network::Northbound;
use netloom_network::check::{Violation, check};
use netloom_ovsdb::client::{Client, MonitorTable, Options};

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lab, removed when dropped. Its Northbound must break no rule by then.
pub struct Checked(pub Lab);

impl Deref for Checked {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Checked {
    /// Asserts that the Northbound breaks no rule now. The controller writes in transactions, so there is no bad moment.
    pub fn lint(&self) {
        let violations: Vec<String> = violations(self).iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "the Northbound breaks rules:\n{}", violations.join("\n"));
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.lint();
        }
    }
}

/// Rules that the rows of a lab's Northbound database break.
fn violations(lab: &Lab) -> Vec<Violation> {
    let machines = lab.status();
    let control = machines
        .iter()
        .find(|machine| machine.machine == "control")
        .and_then(|machine| machine.pid);
    let remote = format!("unix:/proc/{}/root/run/ovn/ovnnb_db.sock", control.expect("control is not running"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let northbound = runtime.block_on(async {
        let mut options = Options::new(remote.parse().unwrap(), "OVN_Northbound");
        let tables = netloom_network::northbound::TABLES.iter();
        options.monitor = tables.map(|(table, _)| MonitorTable::all(*table)).collect();
        let (client, _events) = Client::start(options);
        tokio::time::timeout(PATIENCE, client.ready())
            .await
            .expect("no answer of the database")
            .unwrap();
        let mut northbound = Northbound::default();
        client.read(|replica| {
            for (table, rows) in replica.tables() {
                for (uuid, row) in rows {
                    northbound.observe(table, *uuid, Some(row));
                }
            }
        });
        northbound
    });
    assert!(northbound.rows().next().is_some(), "the Northbound has no row of ours");
    check(&northbound)
}
