"""A machine that is no pod, plugged into a node's switch by hand as the documentation says: what guards pods guards it."""

import json
import subprocess
import unittest

from checks import pods
from world import WORKERS
from world.cluster import get, kubectl, wait
from world.machine import sh, space

MACHINE = "machine"
NODE = WORKERS[1]
SERVE = "import http.server, socket\nclass Server(http.server.HTTPServer): address_family = socket.AF_INET6\nServer(('::', 8080), http.server.SimpleHTTPRequestHandler).serve_forever()"


def port(**spec):
    metadata = {"name": MACHINE, "labels": {"app": MACHINE}}
    return {"apiVersion": "netloom.io/v1alpha1", "kind": "Port", "metadata": metadata, "spec": {"node": NODE, **spec}}


def group(name, *rules):
    return {"apiVersion": "netloom.io/v1alpha1", "kind": "SecurityGroup", "metadata": {"name": name}, "spec": {"rules": list(rules)}}


def apply(*items, check=True):
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
    return kubectl("apply", "-n", pods.NAMESPACE, "-f", "-", input=items, check=check)


def switch(*command):
    """Runs a command in the switch's pod of the node."""
    found = get("pods", "-n", "netloom-system", "-l", "app.kubernetes.io/component=switch", f"--field-selector=spec.nodeName={NODE}")
    return kubectl("exec", "-n", "netloom-system", found[0]["metadata"]["name"], "-c", "ovsdb-server", "--", *command)


def setUpModule():
    pods.pair()
    apply(group("web", {"direction": "Ingress", "protocol": "TCP", "port": 8080, "remote": {"group": {"name": "clients"}}}), group("clients", {"direction": "Egress"}))
    apply(port(mac="52:54:00:12:34:56", ports=[{"name": "http", "port": 8080}]))
    kubectl("wait", "-n", pods.NAMESPACE, "--for=condition=Ready", f"ports.netloom.io/{MACHINE}", "--timeout=30s")
    status = get("ports.netloom.io", MACHINE, "-n", pods.NAMESPACE)["status"]
    (v4, v6), (gateway4, gateway6) = status["addresses"], status["gateways"]
    sh(f"""
        ip netns add {space(MACHINE)}
        ip -n {space(NODE)} link add tap type veth peer name eth0 netns {space(MACHINE)}
        ip -n {space(NODE)} link set tap up
        ip -n {space(MACHINE)} link set lo up
        ip -n {space(MACHINE)} link set eth0 address {status["mac"]} mtu 1400 up
        ip netns exec {space(MACHINE)} ethtool -K eth0 tx off > /dev/null
        ip -n {space(MACHINE)} address add {v4} dev eth0
        ip -n {space(MACHINE)} address add {v6} dev eth0 nodad
        ip -n {space(MACHINE)} route add default via {gateway4}
        ip -n {space(MACHINE)} -6 route add default via {gateway6}
    """)
    switch("ovs-vsctl", "add-port", "br-int", "tap", "--", "set", "Interface", "tap", f"external_ids:iface-id={status['interfaceID']}")
    switch("ovs-vsctl", "--timeout=30", "wait-until", "Interface", "tap", "external_ids:ovn-installed=true")
    Machine.addresses = [address.split("/")[0] for address in (v4, v6)]
    Machine.server = subprocess.Popen(["ip", "netns", "exec", space(MACHINE), "python3", "-c", SERVE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tearDownModule():
    Machine.server.kill()
    Machine.server.wait()
    switch("ovs-vsctl", "--if-exists", "del-port", "tap")
    sh(f"ip netns delete {space(MACHINE)}")
    kubectl("delete", "-n", pods.NAMESPACE, "ports.netloom.io,securitygroups.netloom.io", "--all")
    pods.remove()


class Machine(unittest.TestCase):
    def answers(self, name):
        """In how many families the machine answers a pod."""
        ask = "curl -sS -m 2 -o /dev/null http://{}:8080/ && echo answered; true"
        hosts = (f"[{address}]" if ":" in address else address for address in self.addresses)
        said = (kubectl("exec", "-n", pods.NAMESPACE, name, "--", "sh", "-c", ask.format(host)) for host in hosts)
        return sum("answered" in one for one in said)

    def test_it_is_reached_and_guarded_like_a_pod(self):
        for name in ("client", "server"):
            wait(lambda: self.answers(name) == 2, f"the machine to answer {name}", 30)
        kubectl("annotate", "-n", pods.NAMESPACE, f"ports.netloom.io/{MACHINE}", "netloom.io/security-groups=web")
        wait(lambda: self.answers("client") == 0, "its group to close it", 30)
        kubectl("annotate", "-n", pods.NAMESPACE, "pod/client", "netloom.io/security-groups=clients")
        wait(lambda: self.answers("client") == 2, "its group to open it to another", 30)
        self.assertEqual(self.answers("server"), 0, "whom its group does not name")
        # It may send nothing.
        server = get("pod", "server", "-n", pods.NAMESPACE)["status"]["podIP"]
        ask = ["ip", "netns", "exec", space(MACHINE), "curl", "-sS", "-m", "2", f"http://{server}:8080/hostname"]
        self.assertEqual(subprocess.run(ask, capture_output=True).returncode, 28)
        kubectl("annotate", "-n", pods.NAMESPACE, f"ports.netloom.io/{MACHINE}", "netloom.io/security-groups-")
        wait(lambda: subprocess.run(ask, capture_output=True, text=True).stdout == "server", "it to be free again", 30)

    def test_what_it_is_cannot_change(self):
        self.assertIn("the spec of a Port cannot be changed", apply(port(mac="52:54:00:00:00:01"), check=False))
        shown = kubectl("get", "ports.netloom.io", MACHINE, "-n", pods.NAMESPACE)
        self.assertIn(f"{pods.NAMESPACE}/port_{MACHINE}", shown)
        self.assertIn("True", shown)
