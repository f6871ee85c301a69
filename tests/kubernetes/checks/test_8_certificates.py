"""Certificates renew themselves: the tests install with a lifetime short enough to see it (values.yaml). And what the key of one node is
good for: the rows of this node in the Southbound database, and nothing else."""

import base64
import json
import subprocess
import tempfile
import unittest

from checks.test_2_rights import Rights, pod_of, token
from world import NODES, WORKERS
from world.cluster import get, kubectl, output, wait
from world.install import NAMESPACE


def not_before(pem):
    """When a certificate began to be valid, as openssl prints it, in seconds."""
    printed = subprocess.run(
        ["openssl", "x509", "-noout", "-startdate", "-dateopt", "iso_8601"], input=pem, capture_output=True, text=True, check=True
    ).stdout
    return printed.strip().removeprefix("notBefore=").replace(" ", "T", 1)


class Renewal(unittest.TestCase):
    def test_renewed_and_in_use_without_a_restart(self):
        member = get("pod", "-n", NAMESPACE, "netloom-ovn-0")
        started = max(c["state"]["running"]["startedAt"] for c in member["status"]["containerStatuses"])

        def served():
            shown = output(["sh", "-c", f"openssl s_client -connect {member['status']['hostIP']}:6641 </dev/null | openssl x509"])
            return not_before(shown)

        wait(lambda: served() > started, "the database to serve a certificate younger than its process", 600)
        issued = lambda: base64.b64decode(get("secret", "-n", NAMESPACE, "netloom-northbound-tls")["data"]["tls.crt"]).decode()
        wait(lambda: not_before(issued()) > started, "the controller's certificate to be renewed", 600)
        # Whoever connects now does so with what is there now.
        for node in NODES:
            agent = pod_of("agent", node)
            wait(
                lambda: not_before(kubectl("exec", "-n", NAMESPACE, agent, "-c", "agent", "--", "cat", "/etc/netloom/tls/tls.crt"))
                > started,
                f"the agent of {node} to have a new certificate",
                600,
            )
            status = kubectl(
                "exec",
                "-n",
                NAMESPACE,
                agent,
                "-c",
                "ovn-controller",
                "--",
                "ovn-appctl",
                "-t",
                "/run/ovn/ovn-controller.ctl",
                "connection-status",
            )
            self.assertEqual(status.strip(), "connected", node)


class NodeKey(unittest.TestCase):
    """What root on a node can do with what it finds there."""

    def setUp(self):
        self.agent = pod_of("agent", WORKERS[0])
        self.members = [p["status"]["hostIP"] for p in get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=ovn")]

    def file(self, name):
        return kubectl("exec", "-n", NAMESPACE, self.agent, "-c", "agent", "--", "cat", f"/etc/netloom/{name}")

    def client(self, *arguments):
        """What ovsdb-client says with the key of the node, whether it fails or not."""
        tls = "-p /etc/netloom/tls/tls.key -c /etc/netloom/tls/tls.crt -C /etc/netloom/tls/ca.crt".split()
        said = ["sh", "-c", 'ovsdb-client --timeout=5 "$@" 2>&1 || true', "sh", *tls, *arguments]
        return kubectl("exec", "-n", NAMESPACE, self.agent, "-c", "agent", "--", *said)

    def test_opens_neither_the_northbound_nor_what_members_use(self):
        for member in self.members:
            for port in (6641, 6643, 6644, 6645):
                said = self.client("list-dbs", f"ssl:{member}:{port}")
                self.assertNotIn("OVN_", said, f"{member}:{port}")
            self.assertIn("OVN_Southbound", self.client("list-dbs", f"ssl:{member}:6642"))

    def test_changes_no_rows_of_another_chassis_and_none_of_northd(self):
        chassis = [["name", "==", WORKERS[1]]]
        for operation in (
            {"op": "update", "table": "Chassis", "where": chassis, "row": {"external_ids": ["map", [["a", "b"]]]}},
            {"op": "delete", "table": "Chassis", "where": chassis},
            {"op": "delete", "table": "Logical_Flow", "where": []},
            {"op": "delete", "table": "RBAC_Role", "where": []},
        ):
            said = self.client("transact", f"ssl:{self.members[0]}:6642", json.dumps(["OVN_Southbound", operation]))
            self.assertIn("permission error", said, operation)

    def test_passes_for_no_server(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tls/tls.crt", "trust/ca.crt", "trust/clients.crt"):
                with open(f"{folder}/{name.split('/')[1]}", "w") as file:
                    file.write(self.file(name))
            verify = lambda authority, purpose: subprocess.run(
                ["openssl", "verify", "-purpose", purpose, "-CAfile", f"{folder}/{authority}", f"{folder}/tls.crt"],
                capture_output=True,
                text=True,
            ).stdout
            self.assertIn("OK", verify("clients.crt", "sslclient"))
            self.assertNotIn("OK", verify("clients.crt", "sslserver"))
            self.assertNotIn("OK", verify("ca.crt", "sslserver"))


class Requests(Rights):
    """The token of a node's agent gets a certificate of this node."""

    def setUp(self):
        self.token = token("netloom-agent", pod_of("agent", WORKERS[0]))

    def ask(self, node):
        with tempfile.TemporaryDirectory() as folder:
            make = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={node}"]
            subprocess.run([*make, "-keyout", f"{folder}/key", "-out", f"{folder}/request"], check=True, capture_output=True)
            with open(f"{folder}/request", "rb") as file:
                request = base64.b64encode(file.read()).decode()
            spec = {"request": request, "signerName": "netloom.io/node", "usages": ["digital signature", "client auth"]}
            name = f"test-{node}"
            manifest = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": spec}
            with open(f"{folder}/manifest", "w") as file:
                json.dump(manifest, file)
            self.allowed("create", "-f", f"{folder}/manifest")
        self.addCleanup(lambda: kubectl("delete", "csr", name))
        wait(lambda: get("csr", name).get("status"), "an answer of the controller", 60)
        wait(
            lambda: get("csr", name)["status"].get("certificate") or get("csr", name)["status"]["conditions"][0]["type"] == "Denied",
            "a certificate or a refusal",
            60,
        )
        return get("csr", name)["status"]

    def test_its_own_node_and_no_other(self):
        self.assertIn("certificate", self.ask(WORKERS[0]))
        denied = self.ask(WORKERS[1])
        self.assertNotIn("certificate", denied)
        self.assertIn(f"bound to node {WORKERS[0]}", denied["conditions"][0]["message"])
