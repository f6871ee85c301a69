//! The layout one would write first, to compare with: every policy has a port group and address sets of its own. Policies are found by
//! their namespace, and all that select namespaces by label are asked.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use netloom_network::policy::read::read;
use netloom_network::policy::{Direction, Namespaces, Peer, Policy, ProtocolPorts, Selection, Which};
use netloom_network::rows::{Acl, AddressSet, PortGroup};
use netloom_network::{Key, Member, NetworkPolicy, Northbound, Planner, PodName, PolicyName, RowId, Scope};
use netloom_ovsdb::{Atom, Table};
use uuid::Uuid;

type Labels = BTreeMap<String, String>;

/// A pod as this layout sees it.
#[derive(Clone)]
pub struct Joiner {
    name: PodName,
    labels: Labels,
    addresses: Vec<IpAddr>,
    port: Uuid,
}

struct Entry {
    subject: Selection,
    group: RowId,
    sets: Vec<(Selection, [RowId; 2])>,
}

/// All policies in that layout.
pub struct Naive {
    /// Rows and members of the policies alone.
    pub northbound: Northbound,
    entries: Vec<Entry>,
    of_namespace: HashMap<String, Vec<usize>>,
    wide: Vec<usize>,
    pods: HashMap<String, Vec<Joiner>>,
}

impl Naive {
    /// Policies of a cluster, whose ports were compiled by a planner that knows none.
    pub fn build(cluster: &Planner, policies: &[(PolicyName, NetworkPolicy)]) -> Self {
        let mut this = Self {
            northbound: Northbound::default(),
            entries: Vec::new(),
            of_namespace: HashMap::new(),
            wide: Vec::new(),
            pods: HashMap::new(),
        };
        for name in cluster.cluster().pods.keys() {
            let pods = this.pods.entry(name.namespace.clone()).or_default();
            pods.extend(joiner(cluster, name));
        }
        for (number, (name, policy)) in policies.iter().enumerate() {
            this.add_policy(number, &name.namespace, &read(&name.namespace, &policy.spec), cluster);
        }
        this
    }

    fn add_policy(&mut self, number: usize, namespace: &str, policy: &Policy, cluster: &Planner) {
        let group_name = format!("naive_{number}");
        let group = self.put(
            &format!("group/{number}"),
            PortGroup {
                name: group_name.clone(),
                ..Default::default()
            },
        );
        let mut sets = Vec::new();
        for (direction, rules) in &policy.rules {
            let end = if *direction == Direction::Ingress { "outport" } else { "inport" };
            let of_group = format!("{end} == @{group_name}");
            self.put_acl(
                &format!("{number}/{}", direction.as_str()),
                group,
                *direction,
                (1000, "drop"),
                format!("{of_group} && ip"),
            );
            for rule in rules {
                let mut peers = Vec::new();
                for peer in rule.peers.iter().flatten() {
                    let Peer::Pods(selection) = peer else { continue };
                    let names = [4, 6].map(|family| format!("naive_{number}_{}_{family}", sets.len()));
                    let side = if *direction == Direction::Ingress { "src" } else { "dst" };
                    peers.push(format!("ip4.{side} == ${} || ip6.{side} == ${}", names[0], names[1]));
                    let rows = names.map(|name| {
                        self.put(
                            &name.clone(),
                            AddressSet {
                                name,
                                ..Default::default()
                            },
                        )
                    });
                    sets.push((selection.clone(), rows));
                }
                let ports: Vec<String> = rule.ports.iter().flatten().map(port).collect();
                let condition = format!("{of_group} && ({}) && ({})", peers.join(" || "), ports.join(" || "));
                let key = format!("{number}/{}/{}", direction.as_str(), rule.number);
                self.put_acl(&key, group, *direction, (1001, "allow-related"), condition);
            }
        }
        let entry = Entry {
            subject: policy.subject.clone(),
            group,
            sets,
        };
        let namespaces = &cluster.cluster().namespaces;
        for (name, pods) in &self.pods {
            let Some(labels) = namespaces.get(name).map(|namespace| &namespace.labels) else {
                continue;
            };
            let reached = |selection: &Selection| selection.reaches(name, Some(labels));
            if !reached(&entry.subject) && !entry.sets.iter().any(|(selection, _)| reached(selection)) {
                continue;
            }
            let members = pods.iter().flat_map(|pod| entry.memberships(pod, labels));
            members.for_each(|member| self.northbound.insert_member(member));
        }
        let place = self.entries.len();
        if entry
            .sets
            .iter()
            .any(|(selection, _)| matches!(selection.namespaces, Namespaces::Labelled(_)))
        {
            self.wide.push(place);
        } else {
            self.of_namespace.entry(namespace.to_owned()).or_default().push(place);
        }
        self.entries.push(entry);
    }

    /// What has to change for one pod more.
    pub fn add_pod(&mut self, cluster: &Planner, name: &PodName) -> Scope {
        let mut scope = Scope::default();
        let labels = cluster.cluster().namespaces.get(&name.namespace).map(|namespace| &namespace.labels);
        let (Some(pod), Some(labels)) = (joiner(cluster, name), labels) else {
            return scope;
        };
        let near = self.of_namespace.get(&name.namespace).into_iter().flatten().chain(&self.wide);
        let members: Vec<Member> = near.flat_map(|place| self.entries[*place].memberships(&pod, labels)).collect();
        for member in members {
            self.northbound.insert_member(member.clone());
            scope.add_member(member);
        }
        scope
    }

    /// What has to change when a namespace gets other labels.
    pub fn relabel(&mut self, namespace: &str, before: &Labels, after: &Labels) -> Scope {
        let mut scope = Scope::default();
        let pods = self.pods.get(namespace).into_iter().flatten();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for pod in pods {
            for place in &self.wide {
                gone.extend(self.entries[*place].memberships(pod, before));
                new.extend(self.entries[*place].memberships(pod, after));
            }
        }
        for member in gone {
            self.northbound.remove_member(&member);
            scope.add_member(member);
        }
        for member in new {
            self.northbound.insert_member(member.clone());
            scope.add_member(member);
        }
        scope
    }

    fn put<T: Table>(&mut self, key: &str, row: T) -> RowId {
        let id = RowId::of(T::TABLE, &Key::new(format!("naive/{key}")));
        self.northbound.insert_row(id, Arc::new(row.to_row()));
        id
    }

    fn put_acl(&mut self, key: &str, group: RowId, direction: Direction, (priority, action): (i64, &str), condition: String) {
        let ingress = direction == Direction::Ingress;
        let acl = Acl {
            direction: if ingress { "to-lport" } else { "from-lport" }.to_owned(),
            priority,
            action: action.to_owned(),
            match_: condition,
            ..Default::default()
        };
        let acl = self.put(key, acl);
        let value = Atom::Uuid(acl.uuid);
        self.northbound.insert_member(Member {
            row: group,
            column: "acls",
            value,
        });
    }
}

impl Entry {
    /// Every collection of this policy that a pod is in.
    fn memberships(&self, pod: &Joiner, namespace: &Labels) -> Vec<Member> {
        let is_in = |selection: &Selection| selection.reaches(&pod.name.namespace, Some(namespace)) && selection.pods.matches(&pod.labels);
        let mut members = Vec::new();
        if is_in(&self.subject) {
            let value = Atom::Uuid(pod.port);
            members.push(Member {
                row: self.group,
                column: "ports",
                value,
            });
        }
        for (_, rows) in self.sets.iter().filter(|(selection, _)| is_in(selection)) {
            for address in &pod.addresses {
                let row = rows[usize::from(address.is_ipv6())];
                let value = Atom::from(address.to_string());
                members.push(Member {
                    row,
                    column: "addresses",
                    value,
                });
            }
        }
        members
    }
}

fn joiner(cluster: &Planner, name: &PodName) -> Option<Joiner> {
    let pod = cluster.cluster().pods.get(name)?;
    let assignment = cluster.cluster().records.assignment(name, &pod.uid)?;
    Some(Joiner {
        name: name.clone(),
        labels: pod.labels.clone(),
        addresses: assignment.addresses.clone(),
        port: Key::new(format!("port/{name}/eth0")).uuid("Logical_Switch_Port"),
    })
}

fn port(port: &ProtocolPorts) -> String {
    match port.which {
        Which::Range(first, last) => format!("({0}.dst >= {first} && {0}.dst <= {last})", port.protocol),
        _ => port.protocol.to_string(),
    }
}
