"""A machine: a network namespace on the bridge, and a PID 1 with its own mounts, processes, host name and control groups."""

import errno
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

from . import ADDRESSES, DEBIAN, HOME, LOGS, NODES, OUTSIDE, parts

WIRE = "netloom-kubernetes"
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def space(machine):
    """The name of its network namespace."""
    return f"{WIRE}-{machine}"


def make_wire():
    """The bridge that joins the machines; it is the outside world at the same time."""
    sh(f"""
        ip netns add {WIRE}
        ip -n {WIRE} link set lo up
        ip -n {WIRE} link add wire type bridge mcast_snooping 0
        ip -n {WIRE} address add {OUTSIDE[0]}/24 dev wire
        ip -n {WIRE} address add {OUTSIDE[1]}/64 dev wire nodad
        ip -n {WIRE} link set wire up
    """)


def make(machine):
    """Its namespace, its cable, its files; nothing runs yet."""
    v4, v6 = ADDRESSES[machine]
    sh(f"""
        ip netns add {space(machine)}
        ip -n {space(machine)} link set lo up
        ip -n {WIRE} link add {machine} type veth peer name eth0 netns {space(machine)}
        ip -n {WIRE} link set {machine} master wire up
        ip -n {space(machine)} address add {v4}/24 dev eth0
        ip -n {space(machine)} address add {v6}/64 dev eth0 nodad
        ip -n {space(machine)} link set eth0 up
        ip -n {space(machine)} route add default via {OUTSIDE[0]}
        ip -n {space(machine)} -6 route add default via {OUTSIDE[1]}
    """)
    home = HOME / "machines" / machine
    for directory in ("etc", "parts", "pids", "logs"):
        (home / directory).mkdir(parents=True)
    for path, text in parts.files(machine).items():
        file = home / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name, command in parts.of(machine).items():
        script = home / "parts" / name
        script.write_text("#!/bin/sh\nexec " + " ".join(command.split()) + "\n")
        script.chmod(0o755)


def start(machine):
    """Starts its PID 1."""
    home = HOME / "machines" / machine
    groups = control_groups(machine)
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists():
                for level in (group.parent, group):
                    (level / setting).write_text((level.parent / setting).read_text())

    def enter():
        os.setsid()
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    log = open(home / "logs/init.log", "ab")
    process = subprocess.Popen(
        [
            "nsenter",
            f"--net=/run/netns/{space(machine)}",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--uts",
            "--ipc",
            "--cgroup",
            "--mount-proc",
            pathlib.Path(__file__).with_name("init"),
            HOME,
            machine,
        ],
        preexec_fn=enter,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    (home / "pid").write_text(str(process.pid))


def stop(machine):
    """Ends it with all it runs and removes every trace, its logs excepted."""
    home = HOME / "machines" / machine
    if holder := outer(machine):
        # The first process of a namespace ends after all others of it.
        end(first_process(holder) or holder)
    if (home / "logs").is_dir():
        shutil.rmtree(LOGS / machine, ignore_errors=True)
        shutil.copytree(home / "logs", LOGS / machine)
    subprocess.run(["ip", "netns", "delete", space(machine)], capture_output=True)
    for group in control_groups(machine):
        for directory, _, _ in os.walk(group, topdown=False):
            remove_group(directory)


def run(machine, command, **options):
    """Runs a command on it, with the mounts, processes and network of the machine."""
    spaces = ["--target", str(inner(machine)), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]
    path = f"PATH={DEBIAN}/usr/bin:{os.environ['PATH']}"
    options.setdefault("timeout", 120)
    return subprocess.run(["nsenter", *spaces, "--", "env", path, *map(str, command)], **options)


def near(machine, command, **options):
    """Runs a command of this host's in the network of the machine: it sees the files that we see."""
    options.setdefault("timeout", 120)
    return subprocess.run(["nsenter", f"--net=/run/netns/{space(machine)}", "--", *map(str, command)], **options)


def outer(machine):
    """The process that holds the machine, or None."""
    try:
        pid = int((HOME / "machines" / machine / "pid").read_text())
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid if b"unshare" in command and machine.encode() in command else None


def inner(machine):
    """Its PID 1, as seen from here."""
    holder = outer(machine)
    if pid := holder and first_process(holder):
        return pid
    raise SystemExit(f"{machine} is not running")


def first_process(holder):
    """What the process that holds a machine has started, or None if it has not come to it."""
    children = pathlib.Path(f"/proc/{holder}/task/{holder}/children").read_text().split()
    return int(children[0]) if children else None


def is_up(machine):
    """Whether its PID 1 has made its mounts and started its parts."""
    return (HOME / "machines" / machine / "up").exists()


def restart_part(machine, part, sig=signal.SIGKILL):
    """Ends a part; init starts it again."""
    pid = (HOME / "machines" / machine / "pids" / part).read_text().strip()
    run(machine, ["kill", f"-{int(sig)}", pid], check=True)


def control_groups(machine):
    return [
        controller / WIRE / machine
        for controller in CGROUPS.iterdir()
        if (controller / "cgroup.procs").exists() and controller.name != "unified"
    ]


def end(pid):
    """Ends a process and waits until it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    os.kill(pid, signal.SIGKILL)
    select.select([handle], [], [])
    os.close(handle)


def remove_group(directory):
    """Removes a control group; the kernel takes its time to forget the threads that were in it."""
    for _ in range(100):
        try:
            return os.rmdir(directory)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        time.sleep(0.05)
    raise SystemExit(f"{directory} is still in use")


def sh(script):
    subprocess.run(["sh", "-euc", script], check=True)
