//! The first port of a network on a node: when OVN reports it as installed, the flows of the network are there, however slow the connection to the
//! Southbound database is. A pod answers from then on, and policies must hold from its first packet.

use netloom_lab_fixtures::world::lab_with;

const SLOW_LINK: &str = include_str!("slow_link.py");

/// Has a lab of its own, because it stops a node's ovn-controller.
#[test]
fn a_port_is_installed_only_with_the_flows_of_its_network() {
    let lab = lab_with("installed", |spec| spec.nodes(1));
    let node = lab.node("node1");
    let remote = node
        .run(&["ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:ovn-remote"])
        .unwrap();
    let server: Vec<&str> = remote.trim().trim_matches('"').splitn(3, ':').collect();
    let mut slow = node.spawn(&["python3", "-c", SLOW_LINK, "7642", server[1], server[2]]).unwrap();
    node.run(&[
        "ovs-vsctl",
        "set",
        "Open_vSwitch",
        ".",
        "external_ids:ovn-remote=tcp:127.0.0.1:7642",
    ])
    .unwrap();
    // A network no pod of this node is on yet. The node's switch has said by the end that it uses the slow connection.
    let create = "ovn-nbctl --wait=hv --timeout=60 ls-add elsewhere -- lsp-add elsewhere elsewhere-1 \
        -- lsp-set-addresses elsewhere-1 '0a:00:00:00:00:01 192.0.2.1' -- acl-add elsewhere to-lport 1000 'outport == \"elsewhere-1\" && ip' drop";
    lab.control().run(&["bash", "-c", create]).unwrap();
    let key = "ovn-sbctl --timeout=10 get Datapath_Binding elsewhere tunnel_key";
    let key = lab.control().run(&["bash", "-c", key]).unwrap();
    // OVN adds 1000 to the priority of an ACL. Rules that all networks have in common are there in any case.
    let plug = format!(
        "ovs-vsctl add-port br-int elsewhere1 -- set Interface elsewhere1 type=internal external_ids:iface-id=elsewhere-1\n\
         ovs-vsctl --timeout=60 wait-until Interface elsewhere1 external_ids:ovn-installed=true\n\
         ovs-ofctl dump-flows br-int metadata={} | grep -c priority=2000, || true",
        key.trim()
    );
    let flows = node.run(&["bash", "-c", &plug]).unwrap();
    slow.kill().unwrap();
    slow.wait().unwrap();
    node.run(&["ovs-vsctl", "--if-exists", "del-port", "elsewhere1"]).unwrap();
    lab.control().run(&["ovn-nbctl", "ls-del", "elsewhere"]).unwrap();
    assert_ne!(flows.trim(), "0", "it is reported as installed without the network's own rule");
}
