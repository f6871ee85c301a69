//! What is sent on a link without asking anybody for the way: to all, to addresses that interfaces make for themselves, and through a gateway
//! that nobody needs. What counts is what the target's kernel received, for an answer may get lost in any case.

use crate::questions::World;
use netloom_lab_fixtures::world::echo_requests;

/// How many of two echo requests to an address, with further options of ping, each of these pods has heard.
pub fn heard(world: &World, from: &str, to: &str, by: &[&str]) -> Vec<u64> {
    let count = || by.iter().map(|pod| echo_requests(&world.shell(pod), to.contains(':')));
    let before: Vec<u64> = count().collect();
    let script = format!("ping -n -q -c2 -i0.2 -W0.5 {to}; true");
    world.shell(from).run(&["bash", "-c", &script]).unwrap();
    count().zip(before).map(|(after, before)| after - before).collect()
}

/// The address a pod's interface made for itself, with the interface by which its neighbours reach it.
pub fn link_local(world: &World, pod: &str) -> String {
    let shown = world
        .shell(pod)
        .run(&["ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"])
        .unwrap();
    let word = shown.split_whitespace().find(|word| word.starts_with("fe80:")).unwrap();
    format!("{}%eth0", word.split_once('/').unwrap().0)
}

/// How many echo requests a neighbour hears that are handed to the gateway, in each family, from each address the sender has.
pub fn heard_by_gateway(world: &World, network: &str, from: &str, to: &str) -> [u64; 2] {
    let port = format!("network_{network}_to_switch");
    let gateway = world
        .lab
        .control()
        .run(&["ovn-nbctl", "get", "Logical_Router_Port", &port, "mac"])
        .unwrap();
    let sources = [world.addresses(&format!("link {from}")), world.addresses(from)].concat();
    // Several writers of one memory file may overwrite each other's lines; those of a pipe do not.
    let mut script = "{\n".to_owned();
    for target in world.addresses(&format!("link {to}")) {
        script += &format!("ip neigh replace {target} lladdr {} dev eth0\n", gateway.trim());
        for source in sources.iter().filter(|source| source.is_ipv4() == target.is_ipv4()) {
            script += &format!("ping -n -q -c2 -i0.2 -W0.5 -I {source} {target} &\n");
        }
    }
    script += "wait\n";
    for target in world.addresses(&format!("link {to}")) {
        script += &format!("ip neigh del {target} dev eth0\n");
    }
    script += "} | cat\n";
    assert_eq!(script.matches("ping").count(), 4, "two sources in two families");
    let count = || [false, true].map(|ipv6| echo_requests(&world.shell(to), ipv6));
    let before = count();
    let said = world.shell(from).run(&["bash", "-c", &script]).unwrap();
    assert_eq!(said.matches("2 packets transmitted").count(), 4, "{said}");
    let after = count();
    [after[0] - before[0], after[1] - before[1]]
}
