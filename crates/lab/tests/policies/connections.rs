//! Policies and time: connections that last, and pods that are just born.

use std::net::IpAddr;
use std::thread;

use netloom_lab::echo::client::Attempt;

use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask, failed};
use netloom_lab_fixtures::policies::{TCP, UDP, World, are_cut_but_for_the_allowed, pod, policy};
use netloom_lab_fixtures::world::wait_ready;

/// A connection is judged as long as it lasts, by the packets of the side that opened it. One that stays allowed loses nothing.
pub fn connections_end_with_what_allowed_them(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    are_cut_but_for_the_allowed(world, || world.apply(&policy("shop", "tighter", spec)));
    world.delete("shop", "tighter");
}

/// Somebody tries without pause from before its birth; the address is given so that it is known before.
pub fn a_new_pod_is_isolated_from_its_first_packet(world: &World) {
    world.apply(&policy("shop", "deny", "{ podSelector: { matchLabels: { app: late } } }"));
    let address: IpAddr = {
        let web = world.addresses("shop/web-1")[0].to_string();
        let (subnet, _) = web.rsplit_once('.').unwrap();
        format!("{subnet}.200").parse().unwrap()
    };
    let attempts = thread::scope(|scope| {
        let trying = scope.spawn(|| {
            let flood = Ask::new(Protocol::Udp, address, UDP).timeout_ms(20).until_file("/tmp/born");
            ask(&world.shell("shop/client"), &flood)
        });
        let late = pod(("shop", "late", "node1", "app: late", TCP));
        let annotated = late.replace(
            "labels:",
            &format!("annotations: {{ netloom.io/addresses: \"{address}\" }}, labels:"),
        );
        world.lab.apply(&annotated).unwrap();
        wait_ready(&world.lab);
        let living = ask(
            &world.shell("shop/client"),
            &Ask::new(Protocol::Udp, address, UDP).count(3).timeout_ms(300),
        );
        assert_eq!(failed(&living).len(), 3, "it lives, and is reached");
        world.shell("shop/client").run(&["touch", "/tmp/born"]).unwrap();
        trying.join().unwrap()
    });
    assert!(attempts.len() > 20, "{} attempts", attempts.len());
    let passed: Vec<_> = attempts.iter().filter(|attempt| attempt.outcome == "ok").collect();
    assert_eq!(passed, Vec::<&Attempt>::new(), "packets passed");
    world.delete("shop", "deny");
    let open = ask(&world.shell("shop/client"), &Ask::new(Protocol::Udp, address, UDP).until_answered());
    assert!(answered(&open), "without the policy it is reached");
}
