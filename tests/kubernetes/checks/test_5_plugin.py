"""The plugin by the specification: cnitool's add, check, del, gc and status."""

import json
import signal
import unittest

from checks import pods
from checks.attachments import attached, collect
from world import CONTROL, PROGRAMS, WORKERS, machine
from world.cluster import get, kubectl, wait

NODE = WORKERS[0]
SPACE = "/run/netns/cnitool"


CONFIGURE = """
    ip netns add cnitool
    mkdir -p /run/cnitool
    sed 's/"cniVersion": *"[^"]*"/"cniVersion": "1.1.0"/' /etc/cni/net.d/10-netloom.conflist >/run/cnitool/10-netloom.conflist
"""


class Plugin(unittest.TestCase):
    def setUp(self):
        pods.make()
        # cnitool's gc knows of its own attachments only, so there may be no others.
        kubectl("cordon", NODE)
        kubectl("delete", "pods", "-A", "-l", "k8s-app=kube-dns", f"--field-selector=spec.nodeName={NODE}", "--now")
        wait(lambda: not attached(NODE), f"{NODE} to be empty")
        # A pod the kubelet does not get to see, so that the network is all cnitool's.
        self.kubelet(signal.SIGSTOP)
        kubectl("apply", "-n", pods.NAMESPACE, "-f", "-", input=json.dumps(pods.pod("cnitool", NODE)))
        self.uid = get("pod", "cnitool", "-n", pods.NAMESPACE)["metadata"]["uid"]
        machine.run(NODE, ["sh", "-ec", CONFIGURE], check=True)

    def tearDown(self):
        self.cnitool("del")
        kubectl("delete", "pod", "-n", pods.NAMESPACE, "cnitool", "--force", check=False)
        machine.run(NODE, ["ip", "netns", "delete", "cnitool"])
        self.kubelet(signal.SIGCONT)
        kubectl("uncordon", NODE)
        pods.remove()

    def kubelet(self, sig):
        machine.restart_part(NODE, "kubelet", sig)

    def cnitool(self, command):
        """cnitool on the node, with the plugin and a configuration like the installed one but of the newest version."""
        pod = f"K8S_POD_NAMESPACE={pods.NAMESPACE};K8S_POD_NAME=cnitool;K8S_POD_UID={self.uid}"
        environment = ["CNI_PATH=/opt/cni/bin", "NETCONFPATH=/run/cnitool", f"CNI_ARGS=IgnoreUnknown=1;{pod}"]
        return machine.run(NODE, ["env", *environment, PROGRAMS / "cnitool", command, "netloom", SPACE], capture_output=True, text=True)

    def succeeds(self, command):
        done = self.cnitool(command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_command(self):
        self.succeeds("status")
        result = json.loads(self.succeeds("add"))
        self.assertEqual(result["cniVersion"], "1.1.0")
        addresses = [entry["address"].split("/")[0] for entry in result["ips"]]
        self.assertEqual(len(addresses), 2)
        for address in addresses:
            ping = machine.run(NODE, ["ping", "-c", "1", "-W", "2", address], capture_output=True, text=True)
            self.assertEqual(ping.returncode, 0, ping.stdout)
        self.succeeds("check")

        machine.run(NODE, ["ip", "-n", "cnitool", "address", "flush", "dev", "eth0"], check=True)
        self.assertNotEqual(self.cnitool("check").returncode, 0, "check does not see a missing address")

        self.succeeds("del")
        self.succeeds("del")
        self.assertNotIn("eth0", self.links())

    def test_gc(self):
        self.succeeds("add")
        self.assertEqual(len(attached(NODE)), 1)
        self.succeeds("gc")
        self.assertEqual(attached(NODE), {})
        self.assertNotIn("eth0", self.links())

    def test_gc_leaves_what_is_held(self):
        """On a node with pods: what the runtime has stays."""
        self.assertTrue(attached(CONTROL), "no pod to look at")
        before = attached(CONTROL)
        self.assertEqual(collect(CONTROL), "")
        self.assertEqual(attached(CONTROL), before)

    def links(self):
        return machine.run(NODE, ["ip", "-n", "cnitool", "link"], capture_output=True, text=True).stdout
