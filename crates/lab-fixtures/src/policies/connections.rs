//! Connections that last while a policy changes.

use std::net::{IpAddr, SocketAddr};
use std::thread;

use netloom_lab::echo::client::Attempt;

use super::{TCP, World};
use crate::ask::{answered, failed};

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
