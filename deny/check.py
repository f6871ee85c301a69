#!/usr/bin/env python3
"""Checks every crate we build against deny/policy.toml and deny/advisories.toml, without a network.

Licences must be on the list, sources must be the registry, two versions of one crate must be known and banned crates must stay out.
An entry of the policy that nothing needs any more is an error too, so that the lists stay true. `make lint` calls this.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Only what runs on a node counts; crates for other systems are in the lock file but never built.
PLATFORM = "x86_64-unknown-linux-gnu"


def main():
    policy = tomllib.loads((HERE / "policy.toml").read_text())
    advisories = tomllib.loads((HERE / "advisories.toml").read_text())["advisory"]
    crates = {}
    # The fuzzers take the versions of the product (see fuzz/run), so they have no lock file of their own to insist on.
    shutil.copy(ROOT / "Cargo.lock", ROOT / "fuzz" / "Cargo.lock")
    for manifest, locked in ((ROOT / "Cargo.toml", ["--locked"]), (ROOT / "fuzz" / "Cargo.toml", [])):
        crates.update({crate["id"]: crate for crate in packages(manifest, locked)})
    crates = sorted(crates.values(), key=lambda crate: (crate["name"], version(crate["version"])))

    yanked, known = check_yanked(crates)
    complaints = (
        check_sources(crates)
        + check_licences(crates, policy)
        + check_banned(crates, policy["banned"])
        + check_versions(crates, policy["several"])
        + check_advisories(crates, advisories)
        + yanked
    )
    for complaint in complaints:
        print(f"deny: {complaint}", file=sys.stderr)
    registry = sum(1 for crate in crates if crate["source"])
    verdict = f"{len(complaints)} to fix" if complaints else "nothing to complain about"
    print(f"deny: {len(crates)} crates, {len(advisories)} advisories, withdrawal known of {known}/{registry}: {verdict}")
    return 1 if complaints else 0


def packages(manifest, locked):
    command = ["cargo", "metadata", "--quiet", "--format-version=1", *locked, f"--filter-platform={PLATFORM}", f"--manifest-path={manifest}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"deny: cargo metadata failed for {manifest.relative_to(ROOT)} (is its Cargo.lock up to date?)")
    return json.loads(done.stdout)["packages"]


def check_sources(crates):
    complaints = []
    for crate in crates:
        source = crate["source"]
        inside = source is None and pathlib.Path(crate["manifest_path"]).is_relative_to(ROOT)
        if not inside and not (source or "").endswith("/crates.io-index"):
            complaints.append(f"{name(crate)} comes from {source or crate['manifest_path']}; take crates from the registry only")
    return complaints


def check_licences(crates, policy):
    allowed, exceptions, used, complaints = policy["licences"], policy["exceptions"], set(), []
    for crate in crates:
        own = exceptions.get(crate["name"])
        if own:
            used.add(crate["name"])
            if crate["license"] != own["licence"]:
                complaints.append(f"{name(crate)} is now {crate['license']!r}, the exception was made for {own['licence']!r}")
            continue
        expression = crate["license"]
        if not expression:
            complaints.append(f"{name(crate)} states no licence; read its files and add an exception with the reason")
        elif not satisfied(expression, allowed, used):
            complaints.append(f"{name(crate)} has licence {expression!r}, which deny/policy.toml does not allow")
    stale = (set(allowed) | set(exceptions)) - used
    return complaints + [f"policy.toml allows {entry!r}, which no crate needs; remove it" for entry in sorted(stale)]


def satisfied(expression, allowed, used):
    """Evaluates an SPDX expression; `/` is the old way to write OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        result = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result = both() or result
        return result

    def both():
        result = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = one() and result
        return result

    def one():
        token = tokens.pop(0)
        if token == "(":
            result = either()
            tokens.pop(0)
            return result
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += " WITH " + tokens.pop(0)
        if token in allowed:
            used.add(token)
        return token in allowed

    try:
        return either() and not tokens
    except IndexError:
        return False


def check_banned(crates, banned):
    return [f"{name(crate)} is banned: {banned[crate['name']]}" for crate in crates if crate["name"] in banned]


def check_versions(crates, several):
    """Two incompatible versions of a crate double its code and split its types: each pair needs a reason."""
    found = {}
    for crate in crates:
        found.setdefault(crate["name"], set()).add(compatible(crate["version"]))
    twice = {crate for crate, versions in found.items() if len(versions) > 1}
    complaints = [
        f"{crate} is built in versions {', '.join(sorted(found[crate]))}; unify them, or say why not in policy.toml"
        for crate in sorted(twice - set(several))
    ]
    stale = sorted(set(several) - twice)
    return complaints + [f"policy.toml excuses several versions of {crate}, there are none; remove it" for crate in stale]


def check_advisories(crates, advisories):
    complaints = []
    for crate in crates:
        for advisory in advisories:
            if advisory["crate"] == crate["name"] and all(holds(crate["version"], part) for part in advisory["affected"].split(",")):
                complaints.append(f"{name(crate)} is affected by {advisory['id']}: {advisory['why']}")
    return complaints


def check_yanked(crates):
    """Reads the registry's index as cargo left it on this machine; a crate cargo never asked for is not known."""
    complaints, known = [], 0
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    for crate in crates:
        if not crate["source"]:
            continue
        for entry in home.glob(f"registry/index/*/.cache/{index_path(crate['name'])}"):
            for record in entry.read_bytes().split(b"\0"):
                if record[:1] != b"{":
                    continue
                release = json.loads(record)
                if release["vers"] == crate["version"]:
                    known += 1
                    if release.get("yanked"):
                        complaints.append(f"{name(crate)} was withdrawn by its authors; run `cargo update -p {crate['name']}`")
    return complaints, known


def index_path(crate):
    crate = crate.lower()
    if len(crate) <= 3:
        return f"{len(crate)}/{crate[:1] + '/' if len(crate) == 3 else ''}{crate}"
    return f"{crate[:2]}/{crate[2:4]}/{crate}"


def name(crate):
    return f"{crate['name']} {crate['version']}"


def version(text):
    numbers, _, pre = text.split("+")[0].partition("-")
    return tuple(int(part) for part in numbers.split(".")), pre == "", pre


def compatible(text):
    """The part of a version that cargo will not cross by itself: 1, 0.3, 0.0.7."""
    numbers = version(text)[0]
    first = next((position for position, number in enumerate(numbers) if number), len(numbers) - 1)
    return ".".join(str(number) for number in numbers[: first + 1])


def holds(text, condition):
    operator, bound = re.fullmatch(r"\s*(<=|>=|<|>|=)\s*(\S+)\s*", condition).groups()
    left, right = version(text), version(bound)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "=": left == right}[operator]


if __name__ == "__main__":
    sys.exit(main())
