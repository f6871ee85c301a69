"""The plugin by the specification: cnitool's add, check, del, gc and status."""

import json
import signal
import unittest

from checks import pods
from world import PROGRAMS, WORKERS, machine
from world.cluster import get, kubectl

NODE = WORKERS[0]
SPACE = "/run/netns/cnitool"


def cnitool(command, **environment):
    """cnitool on the node, with the plugin and a configuration like the installed one but of the newest version."""
    return machine.run(
        NODE,
        [
            "env",
            "CNI_PATH=/opt/cni/bin",
            "NETCONFPATH=/run/cnitool",
            *(f"{k}={v}" for k, v in environment.items()),
            PROGRAMS / "cnitool",
            command,
            "netloom",
            SPACE,
        ],
        capture_output=True,
        text=True,
    )


class Plugin(unittest.TestCase):
    def setUp(self):
        pods.make()
        # A pod the kubelet does not get to see, so that the network is all cnitool's.
        self.kubelet(signal.SIGSTOP)
        kubectl("apply", "-n", pods.NAMESPACE, "-f", "-", input=json.dumps(pods.pod("cnitool", NODE)))
        pod = get("pod", "cnitool", "-n", pods.NAMESPACE)
        self.arguments = {
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={pods.NAMESPACE};K8S_POD_NAME=cnitool;K8S_POD_UID={pod['metadata']['uid']};K8S_POD_INFRA_CONTAINER_ID=cnitool"
        }
        machine.run(
            NODE,
            [
                "sh",
                "-ec",
                'ip netns add cnitool; mkdir -p /run/cnitool; sed \'s/"cniVersion": *"[^"]*"/"cniVersion": "1.1.0"/\' /etc/cni/net.d/10-netloom.conflist >/run/cnitool/10-netloom.conflist',
            ],
            check=True,
        )

    def tearDown(self):
        cnitool("del", **self.arguments)
        kubectl("delete", "pod", "-n", pods.NAMESPACE, "cnitool", "--force", check=False)
        machine.run(NODE, ["ip", "netns", "delete", "cnitool"])
        self.kubelet(signal.SIGCONT)
        pods.remove()

    def kubelet(self, sig):
        machine.restart_part(NODE, "kubelet", sig)

    def test_every_command(self):
        status = cnitool("status")
        self.assertEqual(status.returncode, 0, status.stdout + status.stderr)
        added = cnitool("add", **self.arguments)
        self.assertEqual(added.returncode, 0, added.stdout + added.stderr)
        result = json.loads(added.stdout)
        self.assertEqual(result["cniVersion"], "1.1.0")
        addresses = [entry["address"].split("/")[0] for entry in result["ips"]]
        self.assertEqual(len(addresses), 2)
        ping = machine.run(NODE, ["ping", "-c", "1", "-W", "2", addresses[0]], capture_output=True, text=True)
        self.assertEqual(ping.returncode, 0, ping.stdout)
        checked = cnitool("check", **self.arguments)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

        machine.run(NODE, ["ip", "-n", "cnitool", "address", "flush", "dev", "eth0"], check=True)
        broken = cnitool("check", **self.arguments)
        self.assertNotEqual(broken.returncode, 0, "check does not see a missing address")

        for _ in range(2):
            deleted = cnitool("del", **self.arguments)
            self.assertEqual(deleted.returncode, 0, deleted.stdout + deleted.stderr)
        self.assertNotIn("eth0", machine.run(NODE, ["ip", "-n", "cnitool", "link"], capture_output=True, text=True).stdout)

    def test_gc_removes_what_nobody_holds(self):
        """All but the attachments of the node's own pods; those must stay."""
        from checks.test_4_restarts import attached, sandboxes

        before = attached(NODE)
        self.assertEqual(cnitool("add", **self.arguments).returncode, 0)
        self.assertEqual(len(attached(NODE)), len(before) + 1)
        valid = [{"containerID": sandbox, "ifname": "eth0"} for sandbox in sandboxes(NODE)]
        configuration = {"cniVersion": "1.1.0", "name": "netloom", "type": "netloom-cni", "cni.dev/valid-attachments": valid}
        done = machine.run(
            NODE,
            ["env", "CNI_COMMAND=GC", "CNI_PATH=/opt/cni/bin", "/opt/cni/bin/netloom-cni"],
            input=json.dumps(configuration),
            text=True,
            capture_output=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(attached(NODE), before)
