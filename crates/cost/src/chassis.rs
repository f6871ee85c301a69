//! The real chassis: Open vSwitch on its dummy datapath, which has flows and no packets, and ovn-controller.

use std::collections::BTreeSet;
use std::process::Command;

use netloom_fixtures::{SWITCH, Server, program};

use crate::cluster::node_address;
use crate::process::Process;

/// A chassis; its processes end with it, in the order of the fields.
pub struct Chassis {
    /// ovn-controller.
    pub controller: Process,
    _switch: Process,
    database: Server,
    plugged: BTreeSet<String>,
}

impl Chassis {
    /// Starts it with both bridges, as the agent would set them up.
    pub fn start(name: &str, southbound: &str) -> Self {
        let database = Server::start(&[SWITCH]);
        let remote = database.remote.clone();
        let at = |file: &str| database.folder().join(file).display().to_string();
        let program = |path: &str| {
            let mut command = program(path);
            command.env("OVS_RUNDIR", database.folder()).env("OVN_RUNDIR", database.folder());
            command
        };
        let encap = node_address(0);
        // It tries again until the database listens.
        configure(
            &remote,
            "--no-wait --retry",
            &format!(
                "init -- set Open_vSwitch . external_ids:system-id={name} external_ids:hostname={name} external_ids:ovn-remote={southbound} \
             external_ids:ovn-encap-type=geneve external_ids:ovn-encap-ip={encap} external_ids:ovn-monitor-all=false \
             external_ids:ovn-bridge=br-int external_ids:ovn-bridge-datapath-type=dummy external_ids:ovn-bridge-mappings=external:br-ex \
             -- add-br br-int -- set Bridge br-int datapath_type=dummy fail_mode=secure other_config:disable-in-band=true \
             -- add-br br-ex -- set Bridge br-ex datapath_type=dummy"
            ),
        );
        // Its usual path is a link of the image's own root.
        let switch = Process::start(
            program("usr/lib/openvswitch-switch/ovs-vswitchd")
                .arg(&remote)
                .args(["--enable-dummy=override", "--disable-system", "-vconsole:off"])
                .arg(format!("--unixctl={}", at("switch.control")))
                .arg(format!("--log-file={}", at("switch.log"))),
        );
        configure(&remote, "", "get Open_vSwitch . _uuid -- set Bridge br-int external_ids:is=there");
        let controller = Process::start(
            program("usr/bin/ovn-controller")
                .arg(&remote)
                .arg("-vconsole:off")
                .arg(format!("--unixctl={}", at("controller.control")))
                .arg(format!("--log-file={}", at("controller.log"))),
        );
        Self {
            controller,
            _switch: switch,
            database,
            plugged: BTreeSet::new(),
        }
    }

    /// Plugs these logical ports in and no others.
    pub fn plug(&mut self, ports: &BTreeSet<String>) {
        let gone = self
            .plugged
            .difference(ports)
            .map(|port| format!("del-port br-int {}", device(port)));
        let new = ports.difference(&self.plugged).map(|port| {
            let device = device(port);
            format!("add-port br-int {device} -- set Interface {device} type=dummy external_ids:iface-id={port}")
        });
        let commands: Vec<String> = gone.chain(new).collect();
        // One command line has room for so many.
        for commands in commands.chunks(500) {
            configure(&self.database.remote, "", &commands.join(" -- "));
        }
        self.plugged.clone_from(ports);
    }

    /// Has ovn-controller compute all flows again.
    pub fn recompute(&self) {
        let control = self.database.folder().join("controller.control");
        run(program("usr/bin/ovs-appctl").arg("-t").arg(control).arg("inc-engine/recompute"));
    }

    /// How many OpenFlow flows br-int has.
    pub fn flows(&self) -> usize {
        let bridge = format!("unix:{}", self.database.folder().join("br-int.mgmt").display());
        let said = run(program("usr/bin/ovs-ofctl").args(["-O", "OpenFlow15", "dump-aggregate", &bridge]));
        let count = said
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .skip_while(|word| *word != "flow_count")
            .nth(1);
        count
            .and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("no count of flows in {said:?}"))
    }
}

/// A name of a device for a port: they are short.
fn device(port: &str) -> String {
    let sum = port.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("p{:013x}", sum >> 12)
}

/// Changes the switch's configuration, and waits until vswitchd has taken it.
fn configure(database: &str, flags: &str, commands: &str) {
    let words = flags.split_whitespace().chain(["--"]).chain(commands.split_whitespace());
    run(program("usr/bin/ovs-vsctl")
        .args([&format!("--db={database}"), "--timeout=120"])
        .args(words));
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
