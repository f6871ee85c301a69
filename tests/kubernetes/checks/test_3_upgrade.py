"""An upgrade to another version and back, under traffic that must not notice."""

import unittest

from checks import pods
from checks.traffic import Traffic
from world import NODES
from world.cluster import get, helm, import_images, kubectl
from world.install import CHART, NAMESPACE, VALUES, archive

WORKLOADS = ("statefulset/netloom-ovn", "deployment/netloom-controller", "daemonset/netloom-agent")
OTHER = "0.0.0-other"


class Upgrade(unittest.TestCase):
    def tearDown(self):
        pods.remove()

    def test_nothing_is_lost(self):
        import_images([archive(OTHER)])
        switches = self.pods("switch")
        traffic = Traffic(every=0.002)
        helm("upgrade", "netloom", CHART, "--namespace", NAMESPACE, "--values", VALUES, "--set", f"image.tag={OTHER}")
        self.rolled(OTHER)
        helm("rollback", "netloom", "--namespace", NAMESPACE)
        self.rolled()
        sent, lost, requests, lines = traffic.stop()
        print(f"upgrade and back: {sent} packets, {len(lost)} lost; {requests} requests and {lines} lines of one stream, none lost")
        self.assertGreater(min(sent, requests), 1000)
        self.assertEqual(lost, [])
        # The switch carries the traffic: it is replaced only when somebody says so.
        self.assertEqual(self.pods("switch"), switches)

    def rolled(self, tag=None):
        """Waits until every part but the switch runs that version."""
        for workload in WORKLOADS:
            kubectl("rollout", "status", "-n", NAMESPACE, workload, "--timeout=300s")
        for component in ("ovn", "controller", "agent"):
            running = get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/component={component}")
            images = {c["image"] for p in running for c in p["spec"]["containers"] if "deletionTimestamp" not in p["metadata"]}
            self.assertEqual(len(images), 1, images)
            self.assertEqual(tag is not None, images.pop().endswith(OTHER))
        self.assertEqual(len(get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=agent")), len(NODES))

    def pods(self, component):
        return sorted(
            (p["metadata"]["name"], p["metadata"]["uid"])
            for p in get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/component={component}")
        )
