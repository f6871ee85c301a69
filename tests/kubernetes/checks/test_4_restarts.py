"""kubelet, container runtime, API server and etcd each killed: connections stay, and nothing is left over."""

import json
import signal
import socket
import unittest

from checks import pods
from checks.traffic import Traffic
from world import CONTROL, NODES, WORKERS, machine
from world.cluster import kubectl, wait


def attached(node):
    """The interfaces pods have in the node's switch, by the sandbox each is for. Asks the switch's database itself: the kubelet may be away."""
    with socket.socket(socket.AF_UNIX) as database:
        database.settimeout(10)
        database.connect(f"/proc/{machine.inner(node)}/root/run/openvswitch/db.sock")
        select = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "external_ids"]}
        database.sendall(json.dumps({"id": 0, "method": "transact", "params": ["Open_vSwitch", select]}).encode())
        answer = b""
        while True:
            answer += database.recv(1 << 16)
            try:
                rows = json.loads(answer)["result"][0]["rows"]
                break
            except json.JSONDecodeError:
                continue
    ids = [(row["name"], dict(row["external_ids"][1])) for row in rows]
    return {of["netloom.io/sandbox"]: name for name, of in ids if "netloom.io/sandbox" in of}


def sandboxes(node):
    """The sandboxes with a network of their own that run; the kubelet keeps those that have ended for a while."""
    ctr = lambda *arguments: machine.run(node, ["ctr", "-n", "k8s.io", *arguments], capture_output=True, text=True, check=True).stdout
    running = {line.split()[0] for line in ctr("tasks", "ls").splitlines() if line.endswith("RUNNING")}
    found = set()
    for sandbox in running & set(ctr("containers", "ls", "-q", 'labels."io.cri-containerd.kind"==sandbox').split()):
        spec = json.loads(ctr("containers", "info", "--spec", sandbox))
        if any(namespace["type"] == "network" for namespace in spec["linux"]["namespaces"]):
            found.add(sandbox)
    return found


class Restarts(unittest.TestCase):
    def tearDown(self):
        pods.remove()

    def test_connections_stay_and_nothing_leaks(self):
        traffic = Traffic()
        before = {node: attached(node) for node in NODES}
        for machine_name, part, comes_back in (
            (WORKERS[0], "kubelet", self.kubelet_works),
            (WORKERS[1], "containerd", self.kubelet_works),
            (CONTROL, "etcd", self.api_answers),
            (CONTROL, "kube-apiserver", self.api_answers),
        ):
            with self.subTest(part=part):
                machine.restart_part(machine_name, part, signal.SIGKILL)
                comes_back(machine_name)
        self.new_pods_work()
        # A pod's object goes before its sandbox does.
        wait(lambda: {node: attached(node) for node in NODES} == before, "the ports of pods that are gone to go")
        for node in NODES:
            self.assertEqual(set(attached(node)), sandboxes(node), node)
            self.collect(node)
            self.assertEqual(attached(node), before[node], "GC had something to do")
        sent, lost, lines = traffic.stop()
        print(f"restarts: {sent} probes, {len(lost)} lost; {lines} lines of one stream")
        self.assertGreater(sent, 500)
        # Pods come and go on both nodes meanwhile; the connection has lost nothing, and no more than single packets may be late.
        self.assertLess(len(lost), 5, lost)

    def api_answers(self, _node):
        wait(lambda: kubectl("get", "--raw", "/readyz", check=False).strip() == "ok", "the API")

    def kubelet_works(self, node):
        """Runs a pod there, from nothing to its end."""
        self.api_answers(node)
        pods.make(pods.pod("after", node))
        kubectl("delete", "pod", "-n", pods.NAMESPACE, "after", "--timeout=60s")

    def new_pods_work(self):
        for node in WORKERS:
            self.kubelet_works(node)

    def collect(self, node):
        """Calls the plugin's GC with what the runtime has, as a newer runtime does by itself."""
        valid = [{"containerID": sandbox, "ifname": "eth0"} for sandbox in sandboxes(node)]
        configuration = {"cniVersion": "1.1.0", "name": "netloom", "type": "netloom-cni", "cni.dev/valid-attachments": valid}
        done = machine.run(
            node,
            ["env", "CNI_COMMAND=GC", "CNI_PATH=/opt/cni/bin", "/opt/cni/bin/netloom-cni"],
            input=json.dumps(configuration),
            text=True,
            capture_output=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
