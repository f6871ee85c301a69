"""The chart before it meets a cluster: mistakes in values are refused with what to do."""

import subprocess
import unittest

from world import PROGRAMS
from world.install import CHART, VALUES


def template(*arguments):
    """What `helm template` says."""
    command = [PROGRAMS / "helm", "template", "netloom", CHART, "--kube-version=1.35.0", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


class Chart(unittest.TestCase):
    def test_lint(self):
        done = subprocess.run([PROGRAMS / "helm", "lint", CHART, "--values", VALUES], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("0 chart(s) failed", done.stdout)

    def test_the_values_of_the_tests_are_valid(self):
        self.assertIn("kind: StatefulSet", template("--values", VALUES).stdout)

    def test_an_address_of_the_api_is_asked_for(self):
        self.assertIn("set apiServer.host", template().stderr)

    def test_mistakes_are_refused(self):
        for mistake in ("ovn.replica=3", "ovn.replicas=2", "services.mode=naitve", "switch.datapath=fast", "controller.replicas=0"):
            done = template("--values", VALUES, "--set", mistake)
            self.assertNotEqual(done.returncode, 0, mistake)
            self.assertIn(mistake.split(".")[0], done.stderr)
