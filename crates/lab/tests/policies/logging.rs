//! What policies did is in the agents' logs, with the names of pods and policies.

use std::thread;

use crate::ask::{Ask, Protocol, ask};
use crate::questions::{TCP, UDP, World, policy};

pub fn verdicts_are_logged_with_names(world: &World) {
    world
        .lab
        .kubectl(&["annotate", "namespace", "shop", "netloom.io/policy-log=all"])
        .unwrap();
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "watched", spec));
    let [v4, v6] = [0, 1].map(|family| world.addresses("shop/web-1")[family]);
    let dropped =
        "verdict=dropped policy=\"shop/watched\" direction=ingress from=\"other/client\" to=\"shop/web-1\" protocol=\"udp\" port=9090";
    let allowed = "verdict=allowed policy=\"shop/watched ingress[0]\" direction=ingress from=\"shop/client\" to=\"shop/web-1\" protocol=\"tcp\" port=8080";
    for (from, question, line) in [
        ("other/client", Ask::new(Protocol::Udp, v4, UDP), dropped),
        ("shop/client", Ask::new(Protocol::Tcp, v6, TCP), allowed),
    ] {
        // The annotation and the policy come to the controller separately, so it is asked until it is in the log.
        let enough = "/tmp/it-is-in-the-log";
        let asking = question.timeout_ms(200).interval_ms(200).until_file(enough);
        let found = thread::scope(|scope| {
            scope.spawn(|| ask(&world.shell(from), &asking));
            let script = format!("timeout 20 grep -m 1 -F '{line}' <(tail -n +1 -F /var/log/netloom/agent.log)");
            let found = world.lab.node("node1").run(&["bash", "-c", &script]);
            world.shell(from).run(&["touch", enough]).unwrap();
            found
        });
        assert!(found.is_ok(), "{line} is not in the log: {found:?}");
        world.shell(from).run(&["rm", enough]).unwrap();
    }
    world
        .lab
        .kubectl(&["annotate", "namespace", "shop", "netloom.io/policy-log-"])
        .unwrap();
    world.delete("shop", "watched");
}
