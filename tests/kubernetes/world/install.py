"""Netloom and CoreDNS on the cluster, the way a user installs them."""

import os
import pathlib
import subprocess
import time

from . import NODES
from .cluster import get, helm, import_images, kubectl, wait

SOURCE = pathlib.Path(__file__).resolve().parents[3]
CHART = SOURCE / "deploy/chart"
VALUES = SOURCE / "tests/kubernetes/values.yaml"
NAMESPACE = "netloom-system"
NETLOOM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", SOURCE / "target")) / "release/netloom"


def netloom():
    """Imports the image `make image` built and installs the chart; returns when every node is Ready."""
    import_images([archive()])
    started = time.monotonic()
    kubectl("create", "namespace", NAMESPACE)
    helm("install", "netloom", CHART, "--namespace", NAMESPACE, "--values", VALUES)
    wait(nodes_ready, "the nodes to become Ready", 180)
    for workload in ("statefulset/netloom-ovn", "deployment/netloom-controller", "daemonset/netloom-agent"):
        kubectl("rollout", "status", "-n", NAMESPACE, workload, "--timeout=120s")
    print(f"install: nodes Ready and all parts running after {time.monotonic() - started:.0f} s")


def coredns():
    """Cluster DNS, as pods."""
    kubectl("apply", "-f", SOURCE / "tests/kubernetes/coredns.yaml")
    kubectl("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=120s")


def archive(tag=None):
    """The image, as `image/oci` writes it; with a tag, under that name."""
    command = [SOURCE / "image/oci", *(["--tag", tag] if tag else [])]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return printed.splitlines()[-1].split(" (")[0]


def nodes_ready():
    """Whether every node is Ready and has lost the taint it registered with."""
    nodes = get("nodes")
    ready = [node for node in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))]
    waiting = [node for node in nodes for taint in node["spec"].get("taints", []) if taint["key"] == "netloom.io/not-ready"]
    return len(ready) == len(NODES) and not waiting
