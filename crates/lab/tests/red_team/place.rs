//! Who is on a link, and frames between them: an attacker sends what it is told to, victims say what they received.

use std::collections::BTreeSet;
use std::thread;

use netloom_lab_fixtures::world::Checked;

const ATTACKER: &str = include_str!("attacker.py");
/// Says what a pod receives.
pub const VICTIM: &str = include_str!("victim.py");
/// Says what a node sees.
pub const WATCHER: &str = include_str!("watcher.py");
/// Rounds of frames that a victim must have seen the end of. The userspace datapath loses a frame now and then that it has not seen the like of;
/// none is lost in all of them.
const ROUNDS: &str = "12";

/// A pod or a router on a link.
pub struct Place {
    pub mac: String,
    pub ip4: String,
    pub ip6: String,
}

impl Place {
    /// A pod, by the addresses it has on its own link.
    pub fn of_pod(lab: &Checked, namespace: &str, pod: &str) -> Self {
        Self::read(lab, "Logical_Switch_Port", &format!("{namespace}/{pod}"), "addresses")
    }

    /// A port of a router.
    pub fn of_router(lab: &Checked, port: &str) -> Self {
        Self::read(lab, "Logical_Router_Port", port, "mac networks")
    }

    fn read(lab: &Checked, table: &str, row: &str, columns: &str) -> Self {
        let mut command = vec!["ovn-nbctl", "get", table, row];
        command.extend(columns.split(' '));
        let said = lab.control().run(&command).unwrap();
        let words: Vec<&str> = said
            .split([' ', ',', '"', '[', ']', '\n'])
            .filter(|word| !word.is_empty())
            .collect();
        let address = |word: &&str| word.split('/').next().unwrap().to_owned();
        // Of a pod on a Network, the address it has there is the last one.
        Self {
            mac: words[0].to_owned(),
            ip4: words.iter().rev().find(|word| word.contains('.')).map(address).unwrap(),
            ip6: words.iter().skip(1).rev().find(|word| word.contains(':')).map(address).unwrap(),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({ "mac": self.mac, "ip4": self.ip4, "ip6": self.ip6 })
    }
}

/// Pods of one namespace on one link: `attacker`, `victim` and `neighbour`, and `far` on another node.
pub struct Link<'a> {
    pub lab: &'a Checked,
    pub namespace: &'a str,
    pub router: Place,
}

impl Link<'_> {
    /// Lets the attacker send these frames until each of the watchers has seen some rounds, and returns whose tags each of them has seen.
    pub fn attack(&self, frames: &[&str], watchers: &[&str]) -> Vec<BTreeSet<String>> {
        let place = |pod: &str| Place::of_pod(self.lab, self.namespace, pod);
        let ends: Vec<String> = watchers
            .iter()
            .map(|pod| super::addresses(self.lab, self.namespace, pod)[0].to_string())
            .collect();
        let told = serde_json::json!({
            "frames": frames, "ends": ends, "own": place("attacker").json(), "router": self.router.json(),
            "neighbour": place("neighbour").json(), "victim": place("victim").json(),
        });
        let attacker = self.lab.pod(self.namespace, "attacker");
        thread::scope(|scope| {
            let watching: Vec<_> = watchers
                .iter()
                .map(|pod| scope.spawn(|| self.lab.pod(self.namespace, pod).run(&["python3", "-c", VICTIM, "eth0", ROUNDS])))
                .collect();
            while !watching.iter().all(thread::ScopedJoinHandle::is_finished) {
                attacker.run(&["python3", "-c", ATTACKER, &told.to_string()]).unwrap();
            }
            let seen = watching.into_iter().map(|watching| tags(&watching.join().unwrap().unwrap()));
            seen.map(|tags| tags.into_iter().collect()).collect()
        })
    }
}

impl Link<'_> {
    /// Lets the attacker send these frames to a pod of another namespace, until that has seen some rounds; a friend of it there ends each. Whose
    /// tags it has seen.
    pub fn attack_other(&self, frames: &[&str], (namespace, victim, friend): (&str, &str, &str)) -> BTreeSet<String> {
        let told = |own: Place, frames: &[&str], ends: &[String]| {
            let victim = Place::of_pod(self.lab, namespace, victim).json();
            serde_json::json!({
                "frames": frames, "ends": ends, "own": own.json(), "router": self.router.json(), "neighbour": &victim, "victim": &victim,
            })
            .to_string()
        };
        let end = super::addresses(self.lab, namespace, victim)[0].to_string();
        let attack = told(Place::of_pod(self.lab, self.namespace, "attacker"), frames, &[]);
        let round = told(Place::of_pod(self.lab, namespace, friend), &[], &[end]);
        thread::scope(|scope| {
            let watching = scope.spawn(|| self.lab.pod(namespace, victim).run(&["python3", "-c", VICTIM, "eth0", ROUNDS]));
            while !watching.is_finished() {
                let attacker = self.lab.pod(self.namespace, "attacker");
                attacker.run(&["python3", "-c", ATTACKER, &attack]).unwrap();
                self.lab.pod(namespace, friend).run(&["python3", "-c", ATTACKER, &round]).unwrap();
            }
            tags(&watching.join().unwrap().unwrap()).into_iter().collect()
        })
    }
}

/// The tags that were seen, without those that end a round.
pub fn tags(said: &str) -> Vec<String> {
    said.lines().filter(|tag| !tag.ends_with("end")).map(str::to_owned).collect()
}
