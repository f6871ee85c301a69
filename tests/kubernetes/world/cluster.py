"""The cluster as a whole: up, down, and what tests ask of it."""

import concurrent.futures
import json
import shutil
import subprocess
import time

from . import CONTROL, HOME, IMAGES, KUBECONFIG, LOGS, NODES, PROGRAMS, machine, pki


def up():
    """Starts the machines, imports the images, and waits until every node has registered."""
    down()
    started = time.monotonic()
    HOME.mkdir(parents=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    pki.make()
    machine.make_wire()
    for name in NODES:
        machine.make(name)
        machine.start(name)
    import_images(sorted(IMAGES.glob("*.tar")))
    wait(lambda: kubectl("get", "nodes", "-o", "name", check=False).count("node/") == len(NODES), "the nodes to register")
    print(f"cluster: {len(NODES)} nodes after {time.monotonic() - started:.0f} s; export KUBECONFIG={KUBECONFIG}")


def down():
    """Removes the cluster; the logs of its machines stay."""
    if not HOME.exists():
        return
    for name in NODES:
        machine.stop(name)
    subprocess.run(["ip", "netns", "delete", machine.WIRE], capture_output=True)
    for group in {group.parent for name in NODES for group in machine.control_groups(name)}:
        if group.exists():
            machine.remove_group(group)
    shutil.rmtree(HOME)


def import_images(archives):
    """Imports OCI archives into every node's containerd."""

    def into(name):
        wait(
            lambda: machine.is_up(name) and machine.run(name, ["ctr", "version"], capture_output=True).returncode == 0,
            f"containerd of {name}",
        )
        for archive in archives:
            machine.run(name, ["ctr", "-n", "k8s.io", "images", "import", archive], check=True, stdout=subprocess.DEVNULL)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(into, NODES))


def kubectl(*arguments, check=True, input=None):
    """What the kubectl of the same release prints, run in the control plane's network."""
    return output([PROGRAMS / "kubectl", f"--kubeconfig={KUBECONFIG}", *arguments], check, input)


def helm(*arguments):
    """What Helm prints."""
    return output([PROGRAMS / "helm", f"--kubeconfig={KUBECONFIG}", *arguments], True, None)


def get(*arguments):
    """An object, or a list of them, as kubectl names them."""
    found = json.loads(kubectl("get", "-o", "json", *arguments))
    return found["items"] if "items" in found else found


def output(command, check=True, input=None):
    """What a command in the control plane's network prints; with `check`, its failure is one of the test."""
    # Longer than any of them may take: a test that hangs has failed.
    done = machine.near(CONTROL, command, capture_output=True, text=True, input=input, timeout=400)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if check else done.stdout + done.stderr


def wait(condition, what, seconds=120):
    """Waits for what gives no event to wait for."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up after {seconds} s waiting for {what}")
        time.sleep(0.2)
    return found
