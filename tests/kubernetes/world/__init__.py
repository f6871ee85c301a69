"""A real Kubernetes on this machine: one control plane that is also a node, and two workers.

Machines are namespaces (`machine`), joined by a bridge without a way out. Their parts are plain daemons (`parts`) with certificates made for
the occasion (`pki`). Everything lives under one directory and is gone after `down`.
"""

import os
import pathlib

CACHE = pathlib.Path(os.environ.get("NETLOOM_CACHE", "/var/cache/netloom"))
PROGRAMS = CACHE / "kubernetes/bin"
DEBIAN = CACHE / "kubernetes/debian"
IMAGES = CACHE / "kubernetes/images"
HOME = CACHE / "kubernetes/cluster"
LOGS = CACHE / "kubernetes/logs"
KUBECONFIG = HOME / "admin.kubeconfig"

CONTROL = "control"
WORKERS = ("worker1", "worker2")
NODES = (CONTROL, *WORKERS)
# Where the outside is: the bridge itself.
OUTSIDE = "172.31.0.254", "fd31::fe"
ADDRESSES = {"control": ("172.31.0.10", "fd31::a"), "worker1": ("172.31.0.11", "fd31::b"), "worker2": ("172.31.0.12", "fd31::c")}

API_SERVER = f"https://{ADDRESSES[CONTROL][0]}:6443"
SERVICE_RANGES = "10.96.0.0/16,fd00:10:96::/112"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
