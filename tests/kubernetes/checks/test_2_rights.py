"""What the tokens of Netloom's own parts are good for, and what they are refused."""

import json
import unittest

from world import KUBECONFIG, NODES, PROGRAMS, WORKERS
from world.cluster import get, kubectl, output, wait
from world.install import NAMESPACE


def pod_of(component, node=None):
    """The name of a running pod of a part."""
    pods = get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/component={component}")
    return next(p["metadata"]["name"] for p in pods if p["status"]["phase"] == "Running" and node in (None, p["spec"]["nodeName"]))


def token(account, pod):
    """A token as the kubelet gives it to a pod: bound to the pod, and so to its node."""
    return kubectl("create", "token", account, "-n", NAMESPACE, "--bound-object-kind=Pod", f"--bound-object-name={pod}").strip()


class Rights(unittest.TestCase):
    account = component = None

    def attempt(self, *arguments):
        """What kubectl says with the part's token, and with no other credentials."""
        config = json.loads(KUBECONFIG.read_text())
        config["users"][0]["user"] = {"token": self.token}
        return output([PROGRAMS / "kubectl", "--kubeconfig=/dev/stdin", *arguments], check=False, input=json.dumps(config))

    def refused(self, *arguments):
        said = self.attempt(*arguments)
        self.assertRegex(said, "forbidden|Forbidden|denied", " ".join(arguments))
        return said

    def allowed(self, *arguments):
        said = self.attempt(*arguments)
        self.assertNotRegex(said, "orbidden|denied|rror", " ".join(arguments))
        return said


class Agent(Rights):
    def setUp(self):
        self.token = token("netloom-agent", pod_of("agent", WORKERS[0]))

    def test_reads_no_secrets(self):
        self.refused("get", "secrets", "-A")
        for name in ("netloom-ca", "netloom-member-ca", "netloom-member-tls", "netloom-northbound-tls"):
            self.refused("get", "secret", "-n", NAMESPACE, name)

    def test_changes_only_its_own_node(self):
        annotate = lambda node: ("annotate", "node", node, "--overwrite", "netloom.io/test=1")
        self.assertIn("its own node only", self.refused(*annotate(WORKERS[1])))
        self.allowed(*annotate(WORKERS[0]))
        kubectl("annotate", "node", WORKERS[0], "netloom.io/test-")

    def test_changes_nothing_else_of_its_node(self):
        self.refused("annotate", "node", WORKERS[0], "example.com/foreign=1")
        self.refused("label", "node", WORKERS[0], "role=mine")
        self.refused("taint", "node", WORKERS[0], "mine=1:NoSchedule")
        self.refused("cordon", WORKERS[0])
        self.refused("patch", "node", WORKERS[0], "--subresource=status", "--type=merge", "-p", '{"status":{"capacity":{"cpu":"99"}}}')
        self.refused("delete", "node", WORKERS[0])

    def test_changes_no_pod(self):
        pod = pod_of("ovn")
        self.refused("patch", "pod", "-n", NAMESPACE, pod, "--type=merge", "-p", '{"metadata":{"annotations":{"a":"b"}}}')
        self.refused("delete", "pod", "-n", NAMESPACE, pod)
        self.refused("run", "mine", "--image=any")
        self.refused("get", "pods", "-A")

    def test_the_network_is_not_its_to_change(self):
        self.refused("patch", "clusternetwork", "default", "--type=merge", "-p", '{"spec":{"services":{"mode":"kube-proxy"}}}')


class Controller(Rights):
    def setUp(self):
        self.token = token("netloom-controller", pod_of("controller"))

    def test_reads_only_the_secrets_it_issues(self):
        self.allowed("get", "secret", "-n", NAMESPACE, "netloom-ca")
        self.refused("get", "secrets", "-n", NAMESPACE)
        self.refused("get", "secrets", "-n", "kube-system")
        self.refused("create", "secret", "generic", "mine", "-n", "default")

    def test_sees_what_the_network_is_made_from(self):
        for kind in ("pods", "nodes", "services", "endpointslices", "clusternetworks", "externalpools", "networks", "ports", "securitygroups"):
            self.allowed("get", kind, "-A")

    def test_changes_no_specification(self):
        self.refused("patch", "pod", "-n", NAMESPACE, pod_of("ovn"), "--type=merge", "-p", '{"metadata":{"annotations":{"a":"b"}}}')
        self.refused("patch", "service", "-n", "default", "kubernetes", "--type=merge", "-p", '{"spec":{"type":"NodePort"}}')
        self.refused("delete", "node", WORKERS[0])
        self.refused("delete", "clusternetwork", "default")
        self.refused("get", "configmaps", "-A")
        self.refused("run", "mine", "--image=any")


class Databases(Rights):
    def setUp(self):
        self.token = token("netloom-ovn", pod_of("ovn"))

    def test_see_where_they_are_and_nothing_else(self):
        self.allowed("get", "endpointslices", "-n", NAMESPACE)
        for kind in ("pods", "secrets", "nodes", "clusternetworks"):
            self.refused("get", kind, "-A")
        self.refused("get", "endpointslices", "-A")


class Encryption(unittest.TestCase):
    """Databases speak to nobody without a certificate of the cluster's authority."""

    def test_no_certificate_no_answer(self):
        addresses = [
            a["address"] for n in NODES for a in get("node", n)["status"]["addresses"] if a["type"] == "InternalIP" and "." in a["address"]
        ]
        members = {p["status"]["hostIP"] for p in get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=ovn")}
        self.assertTrue(members <= set(addresses) and len(members) == 3, members)
        request = '{"id":0,"method":"list_dbs","params":[]}'
        for member in members:
            for port, database in ((6641, "OVN_Northbound"), (6642, "OVN_Southbound")):
                said = output(["sh", "-c", f"(echo '{request}'; sleep 1) | openssl s_client -quiet -connect {member}:{port}"], check=False)
                self.assertIn("certificate required", said)
                self.assertNotIn(database, said)
                said = output(["sh", "-c", f"echo '{request}' | timeout 3 nc -N {member} {port}"], check=False)
                self.assertNotIn(database, said)
                # Whom each of them is for is let in.
                part, directory = ("controller", "/run/netloom/tls") if port == 6641 else ("agent", "/etc/netloom/tls")
                tls = f"-p {directory}/tls.key -c {directory}/tls.crt -C {directory}/ca.crt"
                asked = f"ovsdb-client {tls} list-dbs ssl:{member}:{port}"
                said = kubectl("exec", "-n", NAMESPACE, pod_of(part), "-c", part, "--", *asked.split())
                self.assertIn(database, said)

    def test_a_lost_certificate_is_issued_again(self):
        serial = lambda: get("secret", "-n", NAMESPACE, "netloom-member-tls")["data"]["tls.crt"]
        before = serial()
        kubectl("delete", "secret", "-n", NAMESPACE, "netloom-member-tls")
        wait(
            lambda: "netloom-member-tls" in kubectl("get", "secrets", "-n", NAMESPACE, "-o", "name"),
            "the certificate to be issued again",
            30,
        )
        self.assertNotEqual(serial(), before)
