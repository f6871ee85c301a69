//! What a server says about its own place in a cluster: the row of our database in its `_Server` database.
//!
//! The session asks for it first when only the leader will do, and keeps watching it.

use serde_json::{Value, json};

use super::ConnectError;

/// The row of our database, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Membership {
    present: bool,
    model: String,
    leader: bool,
    connected: bool,
}

impl Membership {
    /// The parameters of the `monitor_cond` request that watches the row.
    pub(super) fn monitor(id: &str, database: &str) -> Value {
        let columns = ["name", "model", "leader", "connected"];
        json!(["_Server", id, {"Database": [{"columns": columns, "where": [["name", "==", database]]}]}])
    }

    /// Applies a `<table-updates2>` of the watched row. Columns at their default are left out of a new row.
    pub(super) fn apply(&mut self, updates: &Value) {
        let rows = updates.get("Database").and_then(Value::as_object);
        for update in rows.into_iter().flat_map(|rows| rows.values()) {
            let row = if let Some(row) = update.get("initial").or_else(|| update.get("insert")) {
                *self = Membership {
                    present: true,
                    ..Membership::default()
                };
                row
            } else if let Some(row) = update.get("modify") {
                row
            } else {
                *self = Membership::default();
                continue;
            };
            if let Some(model) = row.get("model").and_then(Value::as_str) {
                self.model = model.to_owned();
            }
            let flag = |column| row.get(column).and_then(Value::as_bool);
            self.leader = flag("leader").unwrap_or(self.leader);
            self.connected = flag("connected").unwrap_or(self.connected);
        }
    }

    /// Whether the server may be used by a client that insists on the leader.
    pub(super) fn check(&self, database: &str) -> Result<(), ConnectError> {
        match (self.present, self.model.as_str()) {
            (false, _) => Err(ConnectError::NoDatabase(database.to_owned())),
            (true, "clustered" | "relay") if !self.connected => Err(ConnectError::NotInCluster),
            (true, "clustered") if !self.leader => Err(ConnectError::NotLeader),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connected_leader_or_a_standalone_server_will_do() {
        let mut membership = Membership::default();
        assert!(matches!(membership.check("db"), Err(ConnectError::NoDatabase(_))));
        membership.apply(&json!({"Database": {"x": {"initial": {"model": "clustered", "connected": true}}}}));
        assert!(matches!(membership.check("db"), Err(ConnectError::NotLeader)));
        membership.apply(&json!({"Database": {"x": {"modify": {"leader": true}}}}));
        assert!(membership.check("db").is_ok());
        membership.apply(&json!({"Database": {"x": {"modify": {"connected": false}}}}));
        assert!(matches!(membership.check("db"), Err(ConnectError::NotInCluster)));
        membership.apply(&json!({"Database": {"x": {"insert": {"model": "standalone"}}}}));
        assert!(membership.check("db").is_ok());
        membership.apply(&json!({"Database": {"x": {"delete": null}}}));
        assert!(membership.check("db").is_err());
    }
}
