//! Who asks for a pod's address is answered by the switch of its own node: no question about a pod, and no answer, is carried to another one.

use std::collections::BTreeSet;
use std::thread;

use crate::place::{Place, WATCHER, tags};
use crate::{addresses, lab_with, namespace, network, pod};

/// In the subnet of the Network.
const UNUSED: &str = "192.168.68.250";

#[test]
fn questions_about_pods_are_answered_on_the_senders_node() {
    let mut objects = network("red-neighbours", "192.168.68.0/24, \"fd01:68::/64\"")
        + &namespace("red-neighbours", "")
        + &namespace("red-neighbours-network", "netloom.io/network: red-neighbours");
    for space in ["red-neighbours", "red-neighbours-network"] {
        objects += &(pod(space, "asks", "node1") + &pod(space, "near", "node1") + &pod(space, "far", "node2"));
    }
    let lab = lab_with(&objects);
    let mut asked = Vec::new();
    let watch = |name: &str| lab.node(name).run(&["python3", "-c", WATCHER, "tunnel", "neighbours_end", "6"]);
    let mut script = |space: &str| {
        let mut script =
            "answered() { ip neigh show $1 dev eth0 | grep -q lladdr || { echo \"no answer for $1\"; exit 1; }; }\n".to_owned();
        script += "ip neigh flush dev eth0\nip -6 neigh flush dev eth0\n";
        for name in ["near", "far"] {
            let place = Place::of_pod(&lab, space, name);
            for ip in [place.ip4, place.ip6] {
                asked.push(ip.clone());
                script += &format!("ping -n -q -c1 -W5 {ip} > /dev/null || {{ echo \"no answer of {name} at {ip}\"; exit 1; }}\n");
                // On the node's own switch, the one on another node is behind the router.
                if name == "near" || space.ends_with("-network") {
                    script += &format!("answered {ip}\n");
                }
            }
        }
        // An address that no pod has is asked for everywhere: the watchers see what there is.
        script += &format!("ping -n -q -c1 -W0.2 {UNUSED} > /dev/null\n");
        let far = addresses(&lab, space, "far")[0];
        script + &format!("echo -n 'RED:neighbours_end;' > /dev/udp/{far}/9\n")
    };
    let scripts = ["red-neighbours", "red-neighbours-network"].map(|space| (space, script(space)));
    let seen: BTreeSet<String> = thread::scope(|scope| {
        let watching = ["node1", "node2"].map(|name| scope.spawn(move || watch(name)));
        while !watching.iter().all(thread::ScopedJoinHandle::is_finished) {
            for (space, script) in &scripts {
                lab.pod(space, "asks").run(&["bash", "-c", script]).unwrap();
            }
        }
        watching
            .into_iter()
            .flat_map(|watching| tags(&watching.join().unwrap().unwrap()))
            .collect()
    });
    // Pods of other tests introduce themselves on their Networks when they are attached.
    let carried: Vec<&String> = asked.iter().filter(|address| seen.contains(*address)).collect();
    assert!(seen.contains(UNUSED), "the watchers miss what tunnels carry: {seen:?}");
    assert_eq!(carried, Vec::<&String>::new(), "tunnels carried questions about these");
}
