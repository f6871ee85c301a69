//! Policies and time: connections that last, and pods that are just born.

use std::net::{IpAddr, SocketAddr};
use std::thread;

use netloom_lab::echo::client::Attempt;

use crate::ask::{Ask, Protocol, answered, ask, failed};
use crate::questions::{TCP, UDP, World, pod, policy};
use crate::world::wait_ready;

/// A connection is judged as long as it lasts, by the packets of the side that opened it. One that stays allowed loses nothing.
pub fn connections_end_with_what_allowed_them(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    are_cut_but_for_the_allowed(world, || world.apply(&policy("shop", "tighter", spec)));
    world.delete("shop", "tighter");
}

/// What `tighten` forbids is `other/client` to open connections to `shop/web-1`; it allows that to `shop/client`.
pub fn are_cut_but_for_the_allowed(world: &World, tighten: impl FnOnce()) {
    let web = world.addresses("shop/web-1")[0];
    let (allowed, replied) = (
        Kept::new("shop/client", web),
        Kept::new("shop/web-1", world.addresses("other/client")[0]),
    );
    let forbidden = Kept::new("other/client", web);
    let (forbidden, allowed, replied) = thread::scope(|scope| {
        let cut = scope.spawn(|| forbidden.run(world, r#"[[ $line != *'"outcome":"ok"'* ]]"#));
        let others = [&allowed, &replied].map(|kept| scope.spawn(|| kept.run(world, &format!("[ -e {} ]", kept.file("enough")))));
        [&forbidden, &allowed, &replied].iter().for_each(|kept| kept.wait_begun(world));
        tighten();
        let cut = cut.join().unwrap();
        for kept in [&allowed, &replied] {
            world.shell(kept.from).run(&["touch", &kept.file("enough")]).unwrap();
        }
        let [allowed, replied] = others.map(|other| other.join().unwrap());
        (cut, allowed, replied)
    });
    assert!(!answered(&forbidden), "a forbidden connection goes on");
    assert!(
        failed(&allowed).is_empty(),
        "an allowed connection suffered: {:?}",
        failed(&allowed)
    );
    assert!(failed(&replied).is_empty(), "replies were lost: {:?}", failed(&replied));
}

/// Questions over one connection that lasts.
struct Kept {
    from: &'static str,
    to: IpAddr,
}

impl Kept {
    fn new(from: &'static str, to: IpAddr) -> Self {
        Self { from, to }
    }

    fn file(&self, what: &str) -> String {
        format!("/tmp/{what}-{}", self.from.replace('/', "-"))
    }

    /// Asks until a condition on `$line` is met, at most for a minute, and tells through a pipe that it has begun.
    fn run(&self, world: &World, until: &str) -> Vec<Attempt> {
        let client = format!(
            "netloom lab ask {} --keep --count 0 --interval-ms 50 --timeout-ms 2000 --json",
            SocketAddr::new(self.to, TCP)
        );
        let begun = self.file("begun");
        let script = format!(
            "[ -p {begun} ] || mkfifo {begun} 2>/dev/null; first=1\n             while read -r line; do echo \"$line\"; [ $first ] && echo > {begun}; first=; {until} && exit 0; done < <(exec timeout 60 {client}); true"
        );
        let said = world.shell(self.from).run(&["bash", "-c", &script]).unwrap();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn wait_begun(&self, world: &World) {
        let begun = self.file("begun");
        let script = format!("[ -p {begun} ] || mkfifo {begun} 2>/dev/null; read -t 30 < {begun}");
        world.shell(self.from).run(&["bash", "-c", &script]).unwrap();
    }
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
