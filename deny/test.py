#!/usr/bin/env python3
"""Proves that the check can fail: one broken crate per rule. `make lint` runs this before the check itself."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check  # noqa: E402  (the folder is not a package)

REGISTRY = "registry+https://registry.example/crates.io-index"
POLICY = {"licences": {"MIT": "", "ISC": ""}, "exceptions": {}}


def crate(name, version="1.0.0", licence="MIT AND ISC", source=REGISTRY):
    return {"name": name, "version": version, "license": licence, "source": source, "manifest_path": "/elsewhere/Cargo.toml"}


class Check(unittest.TestCase):
    def test_a_good_crate_passes(self):
        good = [crate("good")]
        self.assertEqual(check.check_sources(good) + check.check_licences(good, POLICY), [])

    def test_sources(self):
        self.assertTrue(check.check_sources([crate("forked", source="git+https://git.example/forked")]))
        self.assertTrue(check.check_sources([crate("neighbour", source=None)]))

    def test_licences(self):
        for expression in ("GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT OR ISC) AND GPL-2.0", "MIT WITH oddity", "(MIT", None):
            self.assertTrue(check.check_licences([crate("good"), crate("bad", licence=expression)], POLICY), expression)
        for expression in ("GPL-3.0-only OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND ISC"):
            self.assertFalse(check.check_licences([crate("good"), crate("fine", licence=expression)], POLICY), expression)

    def test_an_unused_allowance_is_told(self):
        self.assertIn("'ISC'", check.check_licences([crate("good", licence="MIT")], POLICY)[0])

    def test_an_exception_holds_for_the_licence_it_was_made_for(self):
        policy = POLICY | {"exceptions": {"odd": {"licence": "Odd-1.0", "why": ""}}}
        self.assertFalse(check.check_licences([crate("good"), crate("odd", licence="Odd-1.0")], policy))
        self.assertTrue(check.check_licences([crate("good"), crate("odd", licence="Odd-2.0")], policy))

    def test_banned(self):
        self.assertTrue(check.check_banned([crate("serde_yaml")], {"serde_yaml": "unmaintained"}))

    def test_several_versions(self):
        both = [crate("twin", "0.3.1"), crate("twin", "0.4.0")]
        self.assertTrue(check.check_versions(both, {}))
        self.assertFalse(check.check_versions(both, {"twin": "known"}))
        self.assertTrue(check.check_versions(both[:1], {"twin": "no longer true"}))

    def test_advisories(self):
        advisory = {"crate": "leaky", "affected": ">=1.2.0, <1.4.2", "id": "X", "why": "it leaks"}
        for version, affected in (("1.1.9", False), ("1.2.0", True), ("1.4.2-rc.1", True), ("1.4.2", False), ("1.10.0", False)):
            self.assertEqual(bool(check.check_advisories([crate("leaky", version)], [advisory])), affected, version)


if __name__ == "__main__":
    unittest.main(verbosity=0)
