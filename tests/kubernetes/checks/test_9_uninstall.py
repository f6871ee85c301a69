"""Removed and installed again: nothing of Netloom stays on a node, and the second installation works like the first."""

import unittest

from checks import pods
from world import ADDRESSES, NODES, machine
from world.cluster import get, helm, kubectl, wait
from world.install import NAMESPACE, coredns, netloom


def traces(node):
    """What Netloom leaves in a node's network and files, in one text that is empty when there is nothing."""
    # Only a search may find nothing; who is asked has to answer.
    script = """
        nft list tables >/dev/null && ip rule >/dev/null || exit 1
        ip -o link | grep -oE 'netloom[01]|br-int|br-ex|ovs-[a-z]+|genev_sys[^ :]*|nl[0-9a-f]{8,}' || true
        ip rule | grep -E '^1000:' || true
        ip route show table 27759 2>/dev/null || true
        nft list tables | grep netloom || true
        ls -d /opt/cni/bin/netloom-cni /etc/cni/net.d/*netloom* 2>/dev/null || true
        find /var/lib/netloom -type f 2>/dev/null || true
    """
    return machine.run(node, ["sh", "-c", script], capture_output=True, text=True, check=True).stdout


class Uninstall(unittest.TestCase):
    def test_nothing_stays(self):
        self.assertTrue(all(traces(node) for node in NODES), "the traces to look for are there while it is installed")
        helm("uninstall", "netloom", "--namespace", NAMESPACE, "--wait", "--timeout=5m")
        for node in NODES:
            wait(lambda: not traces(node), f"{node} to be clean: {traces(node)}", 60)
            shown = machine.run(node, ["ip", "-o", "address", "show", "dev", "eth0"], capture_output=True, text=True).stdout
            for address in ADDRESSES[node]:
                self.assertIn(f" {address}/", shown)
            self.assertIn("dev eth0", machine.run(node, ["ip", "route", "show", "default"], capture_output=True, text=True).stdout)
        self.assertEqual(kubectl("get", "secrets", "-n", NAMESPACE, "-o", "name").split(), [])
        left = kubectl(
            "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name"
        )
        self.assertNotIn("netloom", left)
        for node in get("nodes"):
            self.assertFalse([key for key in node["metadata"]["annotations"] if key.startswith("netloom.io/")])
        kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
        kubectl("delete", "-n", "kube-system", "deployment", "coredns", "--timeout=60s")
        netloom()
        coredns()
        address = pods.pair()[0]
        self.assertEqual(pods.execute("client", "curl", "-sS", "-m", "5", f"http://{address}:8080/hostname"), "server")
        pods.remove()
