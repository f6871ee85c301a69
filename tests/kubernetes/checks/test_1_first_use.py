"""What a user does first: pods on both workers, exec, logs, port-forward, probes, names; and the tools people bring."""

import json
import subprocess
import unittest

from checks import pods
from checks.pods import NAMESPACE, execute
from checks.test_2_rights import pod_of
from world import CACHE, CONTROL, KUBECONFIG, NODES, PROGRAMS, WORKERS, machine
from world.cluster import get, kubectl, wait
from world.install import NETLOOM

ADDRESSES = []


def setUpModule():
    ADDRESSES[:] = pods.pair()


def tearDownModule():
    pods.remove()


class Cluster(unittest.TestCase):
    def test_netloom_is_the_only_network(self):
        for node in NODES:
            listed = machine.run(node, ["ls", "/etc/cni/net.d"], capture_output=True, text=True).stdout.split()
            self.assertEqual(listed, ["10-netloom.conflist"])
        self.assertEqual([d["metadata"]["name"] for d in get("daemonsets", "-A") if "proxy" in d["metadata"]["name"]], [])

    def test_cluster_dns_runs_on_the_network(self):
        for pod in get("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"):
            self.assertTrue(pod["status"]["podIP"].startswith("10.244."), pod["status"]["podIP"])
            self.assertNotIn("hostNetwork", pod["spec"])


class Pods(unittest.TestCase):
    def test_two_nodes_both_families(self):
        self.assertEqual(len(ADDRESSES), 2)
        for address in ADDRESSES:
            host = f"[{address}]" if ":" in address else address
            self.assertEqual(execute("client", "curl", "-sS", "-m", "5", f"http://{host}:8080/hostname"), "server")

    def test_exec_and_logs(self):
        self.assertEqual(execute("server", "hostname").strip(), "server")
        self.assertIn("Started HTTP server", kubectl("logs", "-n", NAMESPACE, "server"))

    def test_port_forward(self):
        command = [PROGRAMS / "kubectl", f"--kubeconfig={KUBECONFIG}", "port-forward", "-n", NAMESPACE, "pod/server", "18080:8080"]
        space = f"--net=/run/netns/{machine.space(CONTROL)}"
        forward = subprocess.Popen(["nsenter", space, "--", *command], stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn("Forwarding", forward.stdout.readline())
            answer = machine.near(CONTROL, ["curl", "-sS", "-m", "5", "http://127.0.0.1:18080/hostname"], capture_output=True, text=True)
            self.assertEqual(answer.stdout, "server")
        finally:
            forward.kill()
            forward.wait()

    def test_probes_see_the_pod(self):
        """A pod whose probe stops answering is taken out, and back in."""
        ready = lambda: next(c["status"] for c in get("pod", "server", "-n", NAMESPACE)["status"]["conditions"] if c["type"] == "Ready")
        self.assertEqual(ready(), "True")
        liveness = pods.pod(
            "restarted",
            WORKERS[0],
            livenessProbe={"httpGet": {"path": "/shell?cmd=false", "port": 9}, "periodSeconds": 1, "failureThreshold": 1},
            readinessProbe=None,
        )
        kubectl("apply", "-n", NAMESPACE, "-f", "-", input=json.dumps(liveness))
        wait(
            lambda: (get("pod", "restarted", "-n", NAMESPACE)["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0) > 0,
            "the failing probe to be noticed",
        )
        kubectl("delete", "pod", "-n", NAMESPACE, "restarted", "--now")

    def test_names(self):
        kubectl("expose", "pod", "server", "-n", NAMESPACE, "--port=80", "--target-port=8080")
        answer = wait(lambda: execute("client", "sh", "-c", "curl -sS -m 5 http://server/hostname || true"), "the name to resolve", 30)
        self.assertEqual(answer, "server")
        self.assertIn("10.96.0.1", execute("client", "getent", "ahosts", "kubernetes.default.svc.cluster.local"))

    def test_the_api_is_reached_from_a_pod(self):
        answer = execute(
            "client",
            "sh",
            "-c",
            "curl -sS -m 5 --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt https://kubernetes.default/livez",
        )
        self.assertIn("ok", answer.lower() + ("ok" if "Unauthorized" in answer or "Forbidden" in answer else ""))


class Clients(unittest.TestCase):
    """Netloom's objects are ordinary objects."""

    def test_kubectl_of_debian(self):
        name = next(
            p["metadata"]["name"]
            for p in get("pods", "-n", "netloom-system", "-l", "app.kubernetes.io/component=controller")
            if p["status"]["phase"] == "Running"
        )
        printed = kubectl("exec", "-n", "netloom-system", name, "--", "kubectl", "get", "clusternetworks,externalpools")
        self.assertIn("clusternetwork.netloom.io/default", printed)
        self.assertNotIn("v1.35", kubectl("exec", "-n", "netloom-system", name, "--", "kubectl", "version", "--client"))

    def test_python(self):
        program = (
            "from kubernetes import client, config\nconfig.load_kube_config()\n"
            "for kind in ('clusternetworks', 'externalpools'):\n"
            "    for item in client.CustomObjectsApi().list_cluster_custom_object('netloom.io', 'v1alpha1', kind)['items']: print(kind, item['metadata']['name'])\n"
        )
        done = machine.near(
            CONTROL,
            ["env", f"KUBECONFIG={KUBECONFIG}", CACHE / "kubernetes/python/bin/python", "-c", program],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("clusternetworks default", done.stdout)


class Looking(unittest.TestCase):
    """What a person types when in doubt."""

    def test_doctor_finds_nothing_wrong_with_the_cluster(self):
        done = machine.near(CONTROL, [NETLOOM, "doctor", "--kubeconfig", KUBECONFIG, "-o", "json"], capture_output=True, text=True)
        findings = json.loads(done.stdout)["findings"]
        self.assertEqual([f for f in findings if f["state"] == "failed"], [])
        self.assertEqual(done.returncode, 0)
        self.assertGreater(len(findings), 10)

    def test_doctor_finds_nothing_wrong_with_the_nodes(self):
        for node in NODES:
            done = kubectl(
                "exec",
                "-n",
                "netloom-system",
                pod_of("agent", node),
                "-c",
                "agent",
                "--",
                "netloom",
                "doctor",
                "node",
                "-o",
                "json",
                check=False,
            )
            findings = json.loads(done[: done.rindex("}") + 1])["findings"]
            self.assertEqual([f for f in findings if f["state"] == "failed"], [], node)
            self.assertGreater(len(findings), 20)

    def test_why_agrees_with_the_switches(self):
        environment = ["env", f"PATH={PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin"]
        ask = [NETLOOM, "why", "--kubeconfig", KUBECONFIG, f"{NAMESPACE}/client", f"{NAMESPACE}/server", "8080"]
        done = machine.near(CONTROL, [*environment, *ask], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("allowed: pod checks/client to pod checks/server, TCP 8080", done.stdout)
        self.assertIn("ovn-trace says the same (2 packets)", done.stdout)

    def test_show(self):
        printed = kubectl("exec", "-n", "netloom-system", pod_of("controller"), "--", "netloom", "show", "nodes")
        for node in NODES:
            self.assertRegex(printed, rf"{node} +Ready")
