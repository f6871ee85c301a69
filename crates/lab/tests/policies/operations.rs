//! Every operation on a living cluster, while others talk: how long until it takes hold is printed, and nobody it does not concern
//! notices.

use std::thread;
use std::time::Instant;

use netloom_lab::echo::client::Attempt;

use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask, failed};
use netloom_lab_fixtures::policies::{TCP, UDP, World, pod, policy};
use netloom_lab_fixtures::world::wait_ready;

const DENY: &str = "{ podSelector: { matchLabels: { app: web } } }";
const CLIENTS: &str =
    "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
const OTHERS: &str =
    "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: other } } }] }] }";

/// A change, by whom it is noticed, and whether that one is let in afterwards.
struct Operation {
    name: &'static str,
    change: Box<dyn Fn(&World)>,
    from: &'static str,
    opens: bool,
}

/// Those who talk all the time, each over one connection: from the same pod that is shut out, to the same pod that shuts out, and in the same namespace.
const BYSTANDERS: [(&str, &str); 3] = [("other/client", "shop/db"), ("shop/web-1", "shop/db"), ("shop/db", "shop/client")];

pub fn every_operation_takes_hold_and_concerns_nobody_else(world: &World) {
    let enough = "/tmp/operations-are-over";
    let talks = thread::scope(|scope| {
        let talks = BYSTANDERS.map(|(from, to)| {
            let talk = move || {
                let to = world.addresses(to)[0];
                let question = Ask::new(Protocol::Tcp, to, TCP)
                    .keep()
                    .timeout_ms(5000)
                    .interval_ms(20)
                    .until_file(enough);
                ask(&world.shell(from), &question)
            };
            (from, to, scope.spawn(talk))
        });
        for operation in operations() {
            perform(world, &operation);
        }
        for (from, ..) in BYSTANDERS {
            world.shell(from).run(&["touch", enough]).unwrap();
        }
        talks.map(|(from, to, talk)| (from, to, talk.join().unwrap()))
    });
    for (from, to, talk) in talks {
        assert!(talk.len() > 50, "{from} asked {to} only {} times", talk.len());
        assert_eq!(failed(&talk), Vec::<&Attempt>::new(), "{from} to {to}");
    }
}

fn operations() -> Vec<Operation> {
    vec![
        operation("a policy is created", "shop/client", false, |world| {
            world.lab.apply(&policy("shop", "live", DENY)).unwrap();
        }),
        operation("a policy is changed", "shop/client", true, |world| {
            world.lab.apply(&policy("shop", "live", CLIENTS)).unwrap();
        }),
        operation(
            "a pod is relabelled, and is let in no more",
            "shop/client",
            false,
            label(&["pod", "-n", "shop", "client", "app=stranger"]),
        ),
        operation(
            "a pod is relabelled, and is let in",
            "shop/client",
            true,
            label(&["pod", "-n", "shop", "client", "app=client"]),
        ),
        operation("a second policy is created", "other/client", true, |world| {
            world.lab.apply(&policy("shop", "live-too", OTHERS)).unwrap();
        }),
        operation(
            "a namespace is relabelled, and is let in no more",
            "other/client",
            false,
            label(&["namespace", "other", "team=gone"]),
        ),
        operation(
            "a namespace is relabelled, and is let in",
            "other/client",
            true,
            label(&["namespace", "other", "team=other"]),
        ),
        operation("one of two policies is deleted", "other/client", false, |world| {
            world.lab.kubectl(&["delete", "networkpolicy", "-n", "shop", "live-too"]).unwrap();
        }),
        operation("a new pod matches", "shop/young", true, |world| {
            world.lab.apply(&pod(("shop", "young", "node2", "app: client", 8080))).unwrap();
            wait_ready(&world.lab);
        }),
        operation("the last policy is deleted", "other/client", true, |world| {
            world.lab.kubectl(&["delete", "networkpolicy", "-n", "shop", "live"]).unwrap();
            world.lab.kubectl(&["delete", "pod", "-n", "shop", "young"]).unwrap();
        }),
    ]
}

fn operation(name: &'static str, from: &'static str, opens: bool, change: impl Fn(&World) + 'static) -> Operation {
    Operation {
        name,
        change: Box::new(change),
        from,
        opens,
    }
}

/// Gives an object a label it has with another value.
fn label(object: &'static [&'static str]) -> impl Fn(&World) {
    move |world| {
        let words: Vec<&str> = [&["label", "--overwrite"], object].concat();
        world.lab.kubectl(&words).unwrap();
    }
}

fn perform(world: &World, operation: &Operation) {
    let web = world.addresses("shop/web-1")[0];
    (operation.change)(world);
    let done = Instant::now();
    let question = Ask::new(Protocol::Udp, web, UDP);
    let question = if operation.opens {
        question.until_answered()
    } else {
        question.until_lost()
    };
    let attempts = ask(&world.shell(operation.from), &question);
    assert_eq!(answered(&attempts), operation.opens, "{}: {attempts:?}", operation.name);
    let last = attempts.last().map_or(0.0, |attempt| attempt.took);
    let held = (done.elapsed().as_secs_f64() * 1000.0 - last).max(0.0);
    println!("{:<50} took hold within {held:>4.0} ms", operation.name);
}
