//! One node in namespaces of its own: the image's databases, switch and ovn-controller, with `ovn-nbctl` playing the
//! controller. A test describes pods and looks at packets. Everything lives in one PID namespace and ends with it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

pub mod api;
pub mod services;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const SETUP: &str = include_str!("setup.sh");

pub struct World {
    holder: Child,
    /// Process id, outside, of the first process inside.
    inside: u32,
    agent: Mutex<Option<Agent>>,
    directory: tempfile::TempDir,
}

struct Agent {
    child: Child,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

/// A pod as the runtime knows it.
#[derive(Clone)]
pub struct Pod {
    pub name: &'static str,
    pub uid: String,
    pub container: String,
    pub netns: String,
    /// The interface that requests are about.
    pub ifname: &'static str,
    /// Last part of its addresses, and of its MAC.
    pub number: u8,
}

impl Pod {
    pub fn ip4(&self) -> String {
        format!("10.244.1.{}", self.number)
    }

    pub fn ip6(&self) -> String {
        format!("fd00:10:244:1::{}", self.number)
    }

    pub fn mac(&self) -> String {
        format!("0a:58:0a:f4:01:{:02x}", self.number)
    }

    pub fn port(&self) -> String {
        format!("default/{}", self.name)
    }
}

/// `target/debug`, from the place of the test's own executable.
fn build_directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_owned()
}

/// The plugin and the agent, built as they are now: `cargo test --test NAME` alone would leave old ones in place.
fn programs() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let mut build = Command::new(env!("CARGO"));
            // What cargo tells a test about its own package would make it build some dependencies anew.
            for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
                build.env_remove(name);
            }
            // Of the whole workspace, so that dependencies have the features they have in `make test`, where nothing is left to build.
            let programs = ["--workspace", "--bin", "netloom-cni", "--example", "agent"];
            let status = build.args(["build", "--locked", "--quiet"]).args(programs).status().unwrap();
            assert!(status.success(), "cannot build the plugin and the agent");
            build_directory()
        })
        .clone()
}

impl World {
    /// A node with its switch, OVN and an empty logical network; no agent yet.
    pub fn new() -> Self {
        Self::new_with("")
    }

    /// The same with settings for the set-up script.
    fn new_with(settings: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("netloom-agent-").tempdir().unwrap();
        let root = directory.path();
        for part in ["upper/opt/cni/bin", "work", "merged"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        let programs = programs();
        fs::copy(programs.join("netloom-cni"), root.join("upper/opt/cni/bin/netloom-cni")).unwrap();
        fs::copy(programs.join("examples/agent"), root.join("upper/opt/cni/bin/agent")).unwrap();

        let (at, image) = (root.display(), netloom_fixtures::image());
        let script = format!(
            "set -e; mount -t overlay overlay -o lowerdir={image},upperdir={at}/upper,workdir={at}/work {at}/merged
             cd {at}/merged; mount -t proc proc proc; mount -t sysfs sysfs sys; mount --rbind /dev dev
             mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs tmp
             echo ready; exec chroot . /bin/sleep infinity",
            image = image.display()
        );
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "cannot build the node's namespaces (needs root)");
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap();
        let inside = children.split_whitespace().next().unwrap().parse().unwrap();
        // The shell has said "ready" and is about to become chroot's child: wait until its root has changed.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::read_link(format!("/proc/{inside}/root")).is_ok_and(|path| path == Path::new("/")) {
            assert!(Instant::now() < deadline, "the node's root did not change");
            thread::yield_now();
        }
        let world = Self {
            holder,
            inside,
            agent: Mutex::new(None),
            directory,
        };
        world.sh(&format!("{settings}\n{SETUP}"));
        world
    }

    /// A node with its agent, ready for pods.
    pub fn ready() -> Self {
        Self::ready_with("")
    }

    /// The same with settings for the set-up script.
    pub fn ready_with(settings: &str) -> Self {
        let world = Self::new_with(settings);
        world.start_agent();
        world.sh("ovs-vsctl --timeout=20 wait-until interface netloom0 external_ids:ovn-installed=true");
        world
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.inside.to_string(), "-n", "-m", "-p", "-r", "-w", program]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command
    }

    /// Runs a shell script on the node; tells what happened.
    pub fn try_sh(&self, script: &str) -> Output {
        self.enter("sh").args(["-ec", script]).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a shell script on the node that must succeed; returns what it printed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.try_sh(script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{script}\nfailed: {}{}\nagent: {}",
            text(&output.stdout),
            text(&output.stderr),
            self.agent_log()
        );
        text(&output.stdout)
    }

    /// Whether a shell script on the node succeeds.
    pub fn holds(&self, script: &str) -> bool {
        self.try_sh(script).status.success()
    }

    pub fn start_agent(&self) {
        self.start_agent_with_deadline(20);
    }

    pub fn start_agent_with_deadline(&self, seconds: u32) {
        self.start_agent_with(&["node1", "unix:/run/ovn/ovnsb_db.sock", &seconds.to_string()]);
    }

    /// Starts the agent with the kubeconfig at this path on the node.
    pub fn start_agent_with_kubeconfig(&self, path: &str) {
        self.start_agent_with(&["node1", "unix:/run/ovn/ovnsb_db.sock", "20", path]);
    }

    /// A node on which nothing is installed: an empty switch, and an uplink with the node's addresses.
    pub fn bare() -> Self {
        Self::new_with("BARE=1")
    }

    /// Starts an agent that owns the whole node, with ovn-controller beside it.
    pub fn start_owner(&self) {
        self.start_agent_again();
        self.sh("ovs-vsctl --timeout=20 wait-until open_vswitch . external_ids:system-id=node1");
        self.start_ovn_controller();
    }

    /// Starts ovn-controller, once the one before has ended: it holds the pid file until then.
    pub fn start_ovn_controller(&self) {
        self.wait_until(|| self.holds("test ! -e /run/ovn/ovn-controller.pid"));
        self.sh("ovn-controller --detach --no-chdir --log-file --pidfile unix:/run/openvswitch/db.sock 2>/dev/null");
    }

    /// Starts such an agent again, whatever is there.
    pub fn start_agent_again(&self) {
        self.start(
            &["node1", "unix:/run/ovn/ovnsb_db.sock", "20", "/root/kubeconfig"],
            &[("NODE_IP", "172.30.0.2")],
        );
    }

    fn start_agent_with(&self, arguments: &[&str]) {
        self.start(arguments, &[]);
    }

    fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) {
        let mut child = self
            .enter("/opt/cni/bin/agent")
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Log::default());
        let (stderr, writer) = (child.stderr.take().unwrap(), log.clone());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                writer.lines.lock().unwrap().push(line);
                writer.grown.notify_all();
            }
        });
        *self.agent.lock().unwrap() = Some(Agent { child, log });
        self.wait_for_log("connected to the local switch");
    }

    /// Waits until the agent has logged a line with these words.
    pub fn wait_for_log(&self, words: &str) {
        let log = self.agent.lock().unwrap().as_ref().expect("no agent").log.clone();
        let lines = log.lines.lock().unwrap();
        let missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(words));
        let (lines, waited) = log.grown.wait_timeout_while(lines, Duration::from_secs(20), missing).unwrap();
        assert!(!waited.timed_out(), "the agent did not log {words:?}:\n{}", lines.join("\n"));
    }

    pub fn agent_log(&self) -> String {
        let agent = self.agent.lock().unwrap();
        agent
            .as_ref()
            .map(|agent| agent.log.lines.lock().unwrap().join("\n"))
            .unwrap_or_default()
    }

    /// The process id, outside, of the agent itself: nsenter forks once for the PID namespace. Found by its parent, because the
    /// kernel's own list of children may leave out a living one.
    fn agent_pid(&self, agent: &Child) -> u32 {
        let parent = format!("PPid:\t{}\n", agent.id());
        let processes = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let is_child = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains(&parent));
        processes
            .into_iter()
            .find(is_child)
            .expect("nsenter has no child: the agent is gone")
    }

    /// A listening socket on the node, for a server that runs in the test.
    pub fn listen(&self, address: &str) -> std::net::TcpListener {
        let netns = fs::File::open(format!("/proc/{}/ns/net", self.inside)).unwrap();
        let address = address.to_owned();
        let bind = move || {
            nix::sched::setns(netns, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            std::net::TcpListener::bind(address).unwrap()
        };
        thread::spawn(bind).join().unwrap()
    }

    /// Ends the agent with this signal and waits for it; returns its exit code, if it had one.
    pub fn stop_agent(&self, signal: &str) -> Option<i32> {
        let mut agent = self.agent.lock().unwrap().take().expect("no agent");
        let pid = self.agent_pid(&agent.child).to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        agent.child.wait().unwrap().code()
    }

    /// A pod of this name: its namespace, and its logical port as the controller would make it.
    pub fn pod(&self, name: &'static str, number: u8) -> Pod {
        let pod = self.sandbox(name, number, "1");
        self.assign(&pod);
        pod
    }

    /// A sandbox for a pod, without a logical port.
    pub fn sandbox(&self, name: &'static str, number: u8, instance: &str) -> Pod {
        let netns = format!("/run/netns/{name}-{instance}");
        self.sh(&format!("ip netns add {name}-{instance}"));
        Pod {
            name,
            uid: format!("uid-{name}-{instance}"),
            container: format!("c-{name}-{instance}"),
            netns,
            ifname: "eth0",
            number,
        }
    }

    /// Makes (or hands over) the pod's logical port.
    pub fn assign(&self, pod: &Pod) {
        let (port, ip4, ip6, mac) = (pod.port(), pod.ip4(), pod.ip6(), pod.mac());
        self.sh(&format!(
            "ovn-nbctl --may-exist lsp-add node1 {port} \
             -- lsp-set-addresses {port} '{mac} {ip4} {ip6}' -- lsp-set-port-security {port} '{mac} {ip4} {ip6}' \
             -- set logical_switch_port {port} options:requested-chassis=node1 \
                external_ids:netloom.io/uid={uid} external_ids:netloom.io/owner=Pod/default/{name} \
                'external_ids:\"netloom.io/addresses\"=\"{ip4}/24,{ip6}/64\"' \
                'external_ids:\"netloom.io/gateways\"=\"10.244.1.1,fd00:10:244:1::1\"'",
            uid = pod.uid,
            name = pod.name,
        ));
    }

    /// Calls the plugin as a runtime would; `extra` goes into the network configuration.
    pub fn cni(&self, command: &str, pod: &Pod, version: &str, extra: Value) -> Result<Value, Value> {
        let mut config = json!({ "cniVersion": version, "name": "netloom", "type": "netloom-cni" });
        config
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().cloned().unwrap_or_default());
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={};K8S_POD_UID={}",
            pod.name, pod.uid
        );
        let mut child = self
            .enter("/opt/cni/bin/netloom-cni")
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &pod.container)
            .env("CNI_NETNS", &pod.netns)
            .env("CNI_IFNAME", pod.ifname)
            .env("CNI_ARGS", arguments)
            .env("CNI_PATH", "/opt/cni/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let document = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap()
        };
        if child.wait().unwrap().success() {
            Ok(document)
        } else {
            Err(document)
        }
    }

    /// ADD that must succeed.
    pub fn add(&self, pod: &Pod) -> Value {
        self.cni("ADD", pod, "1.0.0", Value::Null)
            .unwrap_or_else(|error| panic!("ADD {}: {error}\n{}", pod.name, self.agent_log()))
    }

    /// CHECK that must succeed.
    pub fn check(&self, pod: &Pod) {
        self.cni("CHECK", pod, "1.0.0", Value::Null)
            .unwrap_or_else(|error| panic!("CHECK {}: {error}\n{}", pod.name, self.agent_log()));
    }

    /// DEL that must succeed.
    pub fn del(&self, pod: &Pod) {
        self.cni("DEL", pod, "1.0.0", Value::Null)
            .unwrap_or_else(|error| panic!("DEL {}: {error}\n{}", pod.name, self.agent_log()));
    }

    /// Runs a command inside a pod.
    pub fn in_pod(&self, pod: &Pod, command: &str) -> bool {
        self.holds(&format!("nsenter --net={} {command}", pod.netns))
    }

    /// Whether one packet from the pod is answered.
    pub fn pings(&self, pod: &Pod, address: &str) -> bool {
        self.in_pod(pod, &format!("ping -c 1 -W 1 {address}"))
    }

    /// Starts a TCP server in the pod that accepts on both families until the world ends.
    pub fn serve_tcp(&self, pod: &Pod, port: u16) {
        self.sh(&format!(
            "nsenter --net={} sh -c 'nc -6 -lk {port} >/tmp/received-{} 2>/dev/null &'",
            pod.netns, pod.name
        ));
        self.wait_until(|| self.in_pod(pod, &format!("ss -ltn | grep -q :{port}")));
    }

    /// Waits until the pod's TCP server has received this many bytes.
    pub fn wait_received(&self, pod: &Pod, bytes: u64) {
        self.wait_until(|| self.holds(&format!("test $(stat -c %s /tmp/received-{}) -eq {bytes}", pod.name)));
    }

    /// Who the outside host sees when the pod opens a TCP connection to it.
    pub fn tcp_peer_seen_outside(&self, pod: &Pod, address: &str) -> String {
        self.sh("ip netns exec outside sh -c 'nc -v -n -l 9000 >/tmp/seen 2>&1 &'");
        self.wait_until(|| self.holds("ip netns exec outside ss -ltn | grep -q :9000"));
        assert!(self.in_pod(pod, &format!("nc -z -w 2 {address} 9000")), "TCP to the outside");
        self.wait_until(|| self.holds("grep -q received /tmp/seen"));
        self.sh("cat /tmp/seen")
    }

    /// Kills vswitchd and starts it again. Nobody reaps it here: it is gone once it is a zombie.
    pub fn restart_switch(&self) {
        self.kill("/run/openvswitch/ovs-vswitchd.pid");
        self.start_vswitchd();
    }

    /// Both of the switch's processes.
    pub fn stop_switch(&self) {
        self.kill("/run/openvswitch/ovs-vswitchd.pid");
        self.kill("/run/openvswitch/ovsdb-server.pid");
    }

    /// Both again.
    pub fn start_switch(&self) {
        self.sh("ovsdb-server --detach --no-chdir --log-file --pidfile --remote=punix:/run/openvswitch/db.sock /etc/openvswitch/conf.db 2>/dev/null");
        self.start_vswitchd();
    }

    fn kill(&self, pid_file: &str) {
        self.sh(&format!("kill -9 $(cat {pid_file})"));
        self.wait_until(|| self.holds(&format!("grep -q '^State:.Z' /proc/$(cat {pid_file})/status")));
    }

    fn start_vswitchd(&self) {
        self.sh("ovs-vswitchd --disable-system --detach --no-chdir --log-file --pidfile 2>/dev/null");
    }

    /// Looks again until something holds that nothing notifies a test of; fails after twenty seconds.
    pub fn wait_until(&self, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < deadline, "did not happen in time; agent:\n{}", self.agent_log());
        }
    }

    /// The OVS interfaces that carry a logical port.
    pub fn interfaces_of(&self, port: &str) -> Vec<String> {
        let found = self.sh(&format!(
            "ovs-vsctl --bare --columns=name find interface 'external_ids:iface-id=\"{port}\"'"
        ));
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// The pods' veths on the host.
    pub fn veths(&self) -> Vec<String> {
        let links = self.sh("ip -o link show type veth");
        let names = links.lines().filter_map(|line| line.split(": ").nth(1)?.split('@').next());
        names
            .filter(|name| netloom_agent::net::watch::is_pod_veth(name))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.lock().unwrap().take() {
            let _ = agent.child.kill();
            let _ = agent.child.wait();
        }
        // `--kill-child` takes the PID namespace, and with it every daemon, down with the holder.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
