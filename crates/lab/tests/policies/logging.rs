//! What decided about a connection is in the agents' logs, with the names of pods: policies, apps, security groups, isolation and cluster-wide
//! policies, each where somebody asks for it.

use std::thread;

use netloom_lab_fixtures::ask::{Ask, Protocol, ask};
use netloom_lab_fixtures::policies::{TCP, UDP, World, policy};
use netloom_lab_fixtures::world::ended;

/// What the annotation is called, to be set and taken away.
const LOG: &str = "netloom.io/policy-log";

#[test]
fn verdicts_are_logged_with_names() {
    let world = World::up("logging");
    annotate(&world, &["namespace", "shop"], &format!("{LOG}=all"));
    policies_are_named(&world);
    apps_are_named(&world);
    security_groups_are_named(&world);
    isolation_is_named_where_it_is_sent(&world);
    annotate(&world, &["namespace", "shop"], &format!("{LOG}-"));
    cluster_policies_are_named(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn policies_are_named(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "watched", spec));
    let dropped = r#"verdict=dropped policy="shop/watched" direction=ingress from="other/client" to="shop/web-1" protocol="udp" port=9090"#;
    logged(world, "node1", &to_web(world, Protocol::Udp, 0), dropped);
    let allowed =
        r#"verdict=allowed policy="shop/watched ingress[0]" direction=ingress from="shop/client" to="shop/web-1" protocol="tcp" port=8080"#;
    logged(world, "node1", &to_web(world, Protocol::Tcp, 1), allowed);
    world.delete("shop", "watched");
}

fn apps_are_named(world: &World) {
    let label = |value: &str| {
        world
            .lab
            .kubectl(&["label", "pod", "-n", "shop", "web-1", "client", value])
            .unwrap()
    };
    label("netloom.io/app=billing");
    let dropped =
        r#"verdict=dropped policy="app shop/billing" direction=ingress from="other/client" to="shop/web-1" protocol="tcp" port=8080"#;
    logged(world, "node1", &to_web(world, Protocol::Tcp, 1), dropped);
    let allowed =
        r#"verdict=allowed policy="app shop/billing" direction=ingress from="shop/client" to="shop/web-1" protocol="udp" port=9090"#;
    logged(world, "node1", &to_web(world, Protocol::Udp, 0), allowed);
    label("netloom.io/app-");
}

fn security_groups_are_named(world: &World) {
    let group = "apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: { name: web, namespace: shop }\n\
                 spec: { rules: [{ direction: Ingress, protocol: TCP, port: 8080 }] }\n";
    world.lab.apply(group).unwrap();
    annotate(world, &["pod", "-n", "shop", "web-1"], "netloom.io/security-groups=web");
    let ingress =
        r#"verdict=dropped policy="security group shop/web" direction=ingress from="shop/client" to="shop/web-1" protocol="udp" port=9090"#;
    logged(world, "node1", &to_web(world, Protocol::Udp, 1), ingress);
    let egress =
        r#"verdict=dropped policy="security group shop/web" direction=egress from="shop/web-1" to="shop/db" protocol="tcp" port=8080"#;
    logged(world, "node1", &Ask::new(Protocol::Tcp, world.addresses("shop/db")[0], TCP), egress);
    world.check("a rule of the group", vec![world.tcp("other/client", "shop/web-1", TCP, true)]);
    annotate(world, &["pod", "-n", "shop", "web-1"], "netloom.io/security-groups-");
}

/// Isolation is judged where a packet is sent, so that is where it is logged.
fn isolation_is_named_where_it_is_sent(world: &World) {
    annotate(world, &["namespace", "shop"], "netloom.io/isolation=pods");
    let dropped =
        r#"verdict=dropped policy="namespace shop isolated" direction=egress from="other/client" to="shop/web-1" protocol="tcp" port=8080"#;
    logged(world, "node2", &to_web(world, Protocol::Tcp, 0), dropped);
    world.check("inside", vec![world.tcp("shop/db", "shop/web-1", TCP, true)]);
    annotate(world, &["namespace", "shop"], "netloom.io/isolation-");
}

fn cluster_policies_are_named(world: &World) {
    let policy = format!(
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{ name: watched, annotations: {{ {LOG}: all }} }}\n\
         spec: {{ tier: Admin, priority: 10, subject: {{ namespaces: {{ matchLabels: {{ team: shop }} }} }}, ingress: [\
         {{ action: Accept, from: [{{ namespaces: {{ matchLabels: {{ team: other }} }} }}] }}, \
         {{ action: Deny, from: [{{ namespaces: {{}} }}] }}] }}\n"
    );
    world.lab.apply(&policy).unwrap();
    let allowed = r#"verdict=allowed policy="ClusterNetworkPolicy/watched ingress[0]" direction=ingress from="other/client" to="shop/web-1" protocol="tcp" port=8080"#;
    logged(world, "node1", &to_web(world, Protocol::Tcp, 0), allowed);
    let dropped = r#"verdict=dropped policy="ClusterNetworkPolicy/watched ingress[1]" direction=ingress from="shop/client" to="shop/web-1" protocol="udp" port=9090"#;
    logged(world, "node1", &to_web(world, Protocol::Udp, 1), dropped);
    let answers = vec![
        world.all("other/client", "shop/web-1", true),
        world.all("shop/client", "shop/web-1", false),
    ];
    world.check("accepted and denied as without a log", answers);
    world.lab.kubectl(&["delete", "cnp", "watched"]).unwrap();
}

fn annotate(world: &World, object: &[&str], annotation: &str) {
    world.lab.kubectl(&[&["annotate"], object, &[annotation]].concat()).unwrap();
}

fn to_web(world: &World, protocol: Protocol, family: usize) -> Ask {
    let port = if protocol == Protocol::Tcp { TCP } else { UDP };
    Ask::new(protocol, world.addresses("shop/web-1")[family], port)
}

/// Asks, as who the line says, until the line is in the log of a node: what leads to it comes to the controller by several watches.
fn logged(world: &World, node: &str, question: &Ask, line: &str) {
    let from = line.split_once("from=\"").unwrap().1.split_once('"').unwrap().0;
    let enough = "/tmp/it-is-in-the-log";
    let asking = question.clone().timeout_ms(200).interval_ms(200).until_file(enough);
    let found = thread::scope(|scope| {
        scope.spawn(|| ask(&world.shell(from), &asking));
        let script = format!("timeout 20 grep -m 1 -F '{line}' <(tail -n +1 -F /var/log/netloom/agent.log)");
        let found = world.lab.node(node).run(&["bash", "-c", &script]);
        world.shell(from).run(&["touch", enough]).unwrap();
        found
    });
    assert!(found.is_ok(), "{line} is not in the log of {node}: {found:?}");
    world.shell(from).run(&["rm", enough]).unwrap();
}
