"""Networks that users define: two tenants with the same addresses, whose pods have all that pods have."""

import json
import unittest

from checks import pods
from world import WORKERS
from world.cluster import get, kubectl, wait

SUBNETS = ["192.168.77.0/24", "fd77::/64"]
TENANTS = ("red", "blue")
# As curl ends when nobody answers in time, and when there is no way to go.
DROPPED = "exit 28"
UNREACHED = (DROPPED, "exit 7")


def network(name, **spec):
    return {"apiVersion": "netloom.io/v1alpha1", "kind": "Network", "metadata": {"name": name}, "spec": {"subnets": SUBNETS, **spec}}


def apply(*items, namespace="default"):
    kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


def setUpModule():
    metadata = lambda name: {"name": name, "labels": {"tenant": name}, "annotations": {"netloom.io/network": name}}
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name)} for name in (*TENANTS, "nowhere")]
    apply(*spaces, network("red", namespaceSelector={"matchLabels": {"tenant": "red"}}), network("blue", isolated=True))
    for tenant in (*TENANTS, "nowhere"):
        wait(lambda: "default" in kubectl("get", "serviceaccounts", "-n", tenant, "-o", "name"), "the namespace's service account")
    for tenant in TENANTS:
        apply(pods.pod(f"{tenant}-0", WORKERS[0]), pods.pod(f"{tenant}-1", WORKERS[1]), namespace=tenant)
    # Ready, because the node's probes reach them.
    for tenant in TENANTS:
        for number in (0, 1):
            kubectl("wait", "-n", tenant, "--for=condition=Ready", f"pod/{tenant}-{number}", "--timeout=60s")
    pods.pair()


def tearDownModule():
    pods.remove()
    for tenant in (*TENANTS, "nowhere"):
        kubectl("delete", "namespace", tenant, "--ignore-not-found", "--timeout=120s")
    for tenant in TENANTS:
        kubectl("delete", "networks.netloom.io", tenant, "--ignore-not-found")


def addresses(namespace, name):
    """Of a pod in the cluster, and in its network."""
    pod = get("pod", name, "-n", namespace)
    shown = wait(lambda: get("pod", name, "-n", namespace)["metadata"]["annotations"].get("netloom.io/network-addresses"), "its place to be shown")
    return [entry["ip"] for entry in pod["status"]["podIPs"]], shown.split(",")


def hostname(namespace, name, address):
    """Who answers at an address, asked from a pod; if nobody does, how curl ended."""
    host = f"[{address}]" if ":" in address else address
    return kubectl("exec", "-n", namespace, name, "--", "sh", "-c", f"curl -sS -m 3 http://{host}:8080/hostname || echo exit $?").strip()


class Tenants(unittest.TestCase):
    def test_the_same_addresses_are_each_tenants_own(self):
        of = {tenant: addresses(tenant, f"{tenant}-1") for tenant in TENANTS}
        self.assertEqual(len(of["red"][1]), 2)
        self.assertEqual({tuple(of[tenant][1]) for tenant in TENANTS}, {tuple(of["red"][1])})
        for tenant in TENANTS:
            for address in of[tenant][1]:
                self.assertEqual(hostname(tenant, f"{tenant}-0", address), f"{tenant}-1")
        for address in of["red"][1]:
            self.assertIn(hostname(pods.NAMESPACE, "client", address), UNREACHED, "it is reached from outside of the network")

    def test_they_have_cluster_addresses_like_any_pod(self):
        in_cluster, _ = addresses("red", "red-1")
        self.assertTrue(in_cluster[0].startswith("10.244."), in_cluster)
        self.assertEqual(len(in_cluster), 2)
        for address in in_cluster:
            self.assertEqual(hostname(pods.NAMESPACE, "client", address), "red-1")
            self.assertEqual(hostname("red", "red-0", address), "red-1")
        server = [entry["ip"] for entry in get("pod", "server", "-n", pods.NAMESPACE)["status"]["podIPs"]]
        for address in server:
            self.assertEqual(hostname("red", "red-0", address), "server")

    def test_an_isolated_one_is_reached_through_services(self):
        in_cluster, _ = addresses("blue", "blue-1")
        self.assertEqual(hostname(pods.NAMESPACE, "client", in_cluster[0]), DROPPED)
        kubectl("expose", "pod", "blue-1", "-n", "blue", "--port=8080")
        name = "blue-1.blue.svc.cluster.local"
        for namespace, pod in ((pods.NAMESPACE, "client"), ("red", "red-0"), ("blue", "blue-0"), ("blue", "blue-1")):
            wait(lambda: hostname(namespace, pod, name) == "blue-1", f"the service to be answered to {namespace}/{pod}", 30)

    def test_they_reach_the_api_server(self):
        token = "/var/run/secrets/kubernetes.io/serviceaccount"
        ask = f"curl -sS -m 5 --cacert {token}/ca.crt -H \"Authorization: Bearer $(cat {token}/token)\" https://kubernetes.default.svc/version"
        for tenant in TENANTS:
            self.assertIn("gitVersion", kubectl("exec", "-n", tenant, f"{tenant}-0", "--", "sh", "-c", ask))

    def test_exec_and_logs(self):
        self.assertEqual(kubectl("exec", "-n", "blue", "blue-0", "--", "hostname").strip(), "blue-0")
        self.assertIn("Started HTTP server", kubectl("logs", "-n", "blue", "blue-0"))


class Waiting(unittest.TestCase):
    def events(self, namespace, name):
        return " ".join(event["reason"] for event in get("events", "-n", namespace) if event["involvedObject"]["name"] == name)

    def test_who_may_not_or_cannot_waits_and_is_told(self):
        stray = pods.pod("stray", WORKERS[0])
        stray["metadata"]["annotations"] = {"netloom.io/network": "red"}
        apply(stray, namespace=pods.NAMESPACE)
        apply(pods.pod("early", WORKERS[0]), namespace="nowhere")
        wait(lambda: "NetworkForbidden" in self.events(pods.NAMESPACE, "stray"), "the Event of who may not")
        wait(lambda: "NetworkUnusable" in self.events("nowhere", "early"), "the Event of who cannot")
        apply(network("nowhere"))
        kubectl("label", "namespace", pods.NAMESPACE, "tenant=red")
        kubectl("wait", "-n", "nowhere", "--for=condition=Ready", "pod/early", "--timeout=90s")
        kubectl("wait", "-n", pods.NAMESPACE, "--for=condition=Ready", "pod/stray", "--timeout=90s")
        self.assertEqual(hostname("red", "red-0", addresses(pods.NAMESPACE, "stray")[1][0]), "stray")
        kubectl("delete", "networks.netloom.io", "nowhere")
        self.assertEqual(kubectl("exec", "-n", "nowhere", "early", "--", "hostname").strip(), "early")
