"""What runs on a machine: each part is a script that becomes its daemon. `machine/init` starts it again whenever it ends."""

import json

from . import ADDRESSES, CONTROL, DNS_SERVICE, HOME, PROGRAMS, SERVICE_RANGES
from .pki import PKI

PAUSE = "test.netloom.io/pause:1"
COREDNS = "test.netloom.io/coredns:1"


def of(machine):
    """Parts by name."""
    parts = {"containerd": "containerd --config /etc/netloom-test/containerd.toml", "kubelet": kubelet(machine)}
    return {**control_plane(), **parts} if machine == CONTROL else parts


def control_plane():
    """etcd, API server, controller manager and scheduler, as on a control plane made by hand."""
    etcd = "http://127.0.0.1:2379"
    peer = "http://127.0.0.1:2380"
    return {
        "etcd": f"""etcd --name test --data-dir /var/lib/etcd --unsafe-no-fsync --log-level warn
            --listen-client-urls {etcd} --advertise-client-urls {etcd}
            --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster test={peer}""",
        "kube-apiserver": f"""{PROGRAMS}/kube-apiserver --advertise-address={ADDRESSES[CONTROL][0]} --secure-port=6443
            --etcd-servers={etcd} --allow-privileged=true --service-cluster-ip-range={SERVICE_RANGES}
            --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --enable-aggregator-routing=true
            --client-ca-file={PKI}/ca.crt --tls-cert-file={PKI}/apiserver.crt --tls-private-key-file={PKI}/apiserver.key
            --kubelet-client-certificate={PKI}/apiserver-kubelet.crt --kubelet-client-key={PKI}/apiserver-kubelet.key
            --kubelet-preferred-address-types=InternalIP
            --service-account-issuer=https://kubernetes.default.svc --service-account-key-file={PKI}/service-account.key
            --service-account-signing-key-file={PKI}/service-account.key
            --requestheader-client-ca-file={PKI}/front-proxy-ca.crt --requestheader-allowed-names=front-proxy
            --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group
            --requestheader-username-headers=X-Remote-User
            --proxy-client-cert-file={PKI}/front-proxy.crt --proxy-client-key-file={PKI}/front-proxy.key""",
        "kube-controller-manager": f"""{PROGRAMS}/kube-controller-manager --kubeconfig={HOME}/controller-manager.kubeconfig
            --leader-elect=false --use-service-account-credentials=true --root-ca-file={PKI}/ca.crt
            --service-account-private-key-file={PKI}/service-account.key
            --cluster-signing-cert-file={PKI}/ca.crt --cluster-signing-key-file={PKI}/ca.key
            --service-cluster-ip-range={SERVICE_RANGES} --allocate-node-cidrs=false""",
        "kube-scheduler": f"{PROGRAMS}/kube-scheduler --kubeconfig={HOME}/scheduler.kubeconfig --leader-elect=false",
    }


def kubelet(machine):
    """The node's kubelet; the control plane's node is tainted as kubeadm does it, and every node until its network is ready."""
    taints = ["netloom.io/not-ready=:NoSchedule"]
    labels = []
    if machine == CONTROL:
        taints.append("node-role.kubernetes.io/control-plane=:NoSchedule")
        labels.append("node.kubernetes.io/exclude-from-external-load-balancers=")
    return f"""{PROGRAMS}/kubelet --config=/etc/netloom-test/kubelet.yaml --kubeconfig={HOME}/{machine}.kubeconfig
            --hostname-override={machine} --node-ip={",".join(ADDRESSES[machine])}
            --register-with-taints={",".join(taints)} --node-labels={",".join(labels)}"""


def files(_machine):
    """Configuration files, by path."""
    return {
        "/etc/netloom-test/containerd.toml": CONTAINERD,
        "/etc/netloom-test/kubelet.yaml": json.dumps(KUBELET),
        "/etc/resolv.conf": "",
        "/etc/crictl.yaml": "runtime-endpoint: unix:///run/containerd/containerd.sock\n",
    }


CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
"""

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{PKI}/ca.crt"}},
    "authorization": {"mode": "Webhook"},
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "oomScoreAdj": 0,
    "clusterDNS": [DNS_SERVICE],
    "clusterDomain": "cluster.local",
    "resolvConf": "/etc/resolv.conf",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "maxPods": 200,
    "registerNode": True,
    "serverTLSBootstrap": False,
    "shutdownGracePeriod": "0s",
}
