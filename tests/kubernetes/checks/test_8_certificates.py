"""Certificates renew themselves: the tests install with a lifetime short enough to see it (values.yaml)."""

import base64
import subprocess
import unittest

from checks.test_2_rights import pod_of
from world import NODES
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
        issued = lambda: base64.b64decode(get("secret", "-n", NAMESPACE, "netloom-agent-tls")["data"]["tls.crt"]).decode()
        wait(lambda: not_before(issued()) > started, "the agents' certificate to be renewed", 600)
        # Whoever connects now does so with what is there now.
        for node in NODES:
            agent = pod_of("agent", node)
            wait(
                lambda: not_before(kubectl("exec", "-n", NAMESPACE, agent, "-c", "agent", "--", "cat", "/etc/netloom/tls/tls.crt"))
                > started,
                f"the agent of {node} to have a new certificate",
                300,
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
