"""Two pods on two nodes, for the checks that need traffic."""

import json

from world import PROGRAMS, WORKERS
from world.cluster import get, kubectl, wait

NAMESPACE = "checks"


def agnhost():
    """The name of the upstream tests' image, as they print it."""
    import subprocess

    names = subprocess.run([PROGRAMS / "e2e.test", "--list-images"], capture_output=True, text=True, check=True).stdout.split()
    return max(name for name in names if "/e2e-test-images/agnhost:" in name)


def pod(name, node, **spec):
    """Manifest of a pod that answers on port 8080."""
    container = {
        "name": "main",
        "image": agnhost(),
        "args": ["netexec", "--http-port=8080"],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
        **spec,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def make(*manifests):
    """Makes pods in the namespace of the checks, and waits until they are ready."""
    kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
    wait(lambda: "default" in kubectl("get", "serviceaccounts", "-n", NAMESPACE, "-o", "name"), "the namespace's service account")
    if manifests:
        kubectl("apply", "-n", NAMESPACE, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", f"pod/{manifest['metadata']['name']}", "--timeout=60s")


def pair():
    """`client` on one worker, `server` on the other; the addresses of the server."""
    make(pod("client", WORKERS[0]), pod("server", WORKERS[1]))
    return [address["ip"] for address in get("pod", "server", "-n", NAMESPACE)["status"]["podIPs"]]


def execute(name, *command):
    """Runs a command in a pod."""
    return kubectl("exec", "-n", NAMESPACE, name, "--", *command)


def remove():
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
