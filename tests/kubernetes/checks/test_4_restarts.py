"""kubelet, container runtime, API server and etcd each killed: connections stay, and nothing is left over."""

import signal
import unittest

from checks import pods
from checks.attachments import attached, collect, sandboxes
from checks.traffic import Traffic
from world import CONTROL, NODES, WORKERS, machine
from world.cluster import kubectl, wait


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
            self.assertEqual(collect(node), "")
            self.assertEqual(attached(node), before[node], "GC had something to do")
        sent, lost, requests, lines = traffic.stop()
        print(f"restarts: {sent} packets, {len(lost)} lost; {requests} requests and {lines} lines of one stream, none lost")
        self.assertGreater(min(sent, requests), 500)
        # Connections have lost nothing. Pods come and go on both nodes meanwhile, and the userspace datapath may lose a packet when a port does.
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
