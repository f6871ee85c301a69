"""The switch of a node replaced, as docs/install.md says."""

import unittest

from checks import pods
from world import WORKERS
from world.cluster import get, kubectl, wait
from world.install import NAMESPACE


class Switch(unittest.TestCase):
    def tearDown(self):
        pods.remove()

    def test_the_node_comes_back_with_a_new_one(self):
        server = pods.pair()[0]
        node = WORKERS[0]
        old = self.switch(node)["metadata"]["uid"]
        kubectl("delete", "pod", "-n", NAMESPACE, self.switch(node)["metadata"]["name"], "--wait=false")
        # The node learns of the new one through the network it is about to lose.
        wait(lambda: self.runs_another(node, old), "the new switch", 120)
        wait(lambda: "1 received" in self.ping(server), "pods to reach each other", 60)
        wait(lambda: kubectl("exec", "-n", pods.NAMESPACE, "client", "--", "true", check=False) == "", "the node's kubelet")

    def ping(self, address):
        return kubectl("exec", "-n", pods.NAMESPACE, "client", "--", "ping", "-c", "1", "-W", "1", address, check=False)

    def switch(self, node):
        found = get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=switch", "--field-selector", f"spec.nodeName={node}")
        return next((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), None)

    def runs_another(self, node, old):
        pod = self.switch(node)
        if not pod or pod["metadata"]["uid"] == old:
            return False
        return all(status["ready"] for status in pod["status"].get("containerStatuses", [{"ready": False}]))
