"""What is attached to a node's switch, what the container runtime says should be, and the plugin's GC between the two."""

import json
import socket

from world import machine


def attached(node):
    """The interfaces pods have in the node's switch, by the sandbox each is for. Asks the switch's database itself: the kubelet may be away."""
    select = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "external_ids"]}
    with socket.socket(socket.AF_UNIX) as database:
        database.settimeout(10)
        database.connect(f"/proc/{machine.inner(node)}/root/run/openvswitch/db.sock")
        database.sendall(json.dumps({"id": 0, "method": "transact", "params": ["Open_vSwitch", select]}).encode())
        rows = receive(database)["result"][0]["rows"]
    ids = [(row["name"], dict(row["external_ids"][1])) for row in rows]
    return {of["netloom.io/sandbox"]: name for name, of in ids if "netloom.io/sandbox" in of}


def receive(database):
    """One message."""
    text = b""
    while True:
        text += database.recv(1 << 16)
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            continue


def sandboxes(node):
    """The sandboxes with a network of their own that run; the kubelet keeps those that have ended for a while."""
    ctr = lambda *arguments: machine.run(node, ["ctr", "-n", "k8s.io", *arguments], capture_output=True, text=True, check=True).stdout
    running = {line.split()[0] for line in ctr("tasks", "ls").splitlines() if line.endswith("RUNNING")}
    found = set()
    for sandbox in running & set(ctr("containers", "ls", "-q", 'labels."io.cri-containerd.kind"==sandbox').split()):
        spec = json.loads(ctr("containers", "info", "--spec", sandbox))
        if any(namespace["type"] == "network" for namespace in spec["linux"]["namespaces"]):
            found.add(sandbox)
    return found


def collect(node):
    """Calls the plugin's GC with what the runtime has, as newer runtimes do by themselves; what it says if it fails."""
    valid = [{"containerID": sandbox, "ifname": "eth0"} for sandbox in sandboxes(node)]
    configuration = {"cniVersion": "1.1.0", "name": "netloom", "type": "netloom-cni", "cni.dev/valid-attachments": valid}
    command = ["env", "CNI_COMMAND=GC", "CNI_PATH=/opt/cni/bin", "/opt/cni/bin/netloom-cni"]
    done = machine.run(node, command, input=json.dumps(configuration), text=True, capture_output=True)
    return done.stdout if done.returncode else ""
