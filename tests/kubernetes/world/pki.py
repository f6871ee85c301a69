"""Certificates and kubeconfigs of a cluster that lives for a test, by openssl."""

import base64
import json
import subprocess

from . import ADDRESSES, API_SERVER, API_SERVICE, CONTROL, HOME, KUBECONFIG, NODES

PKI = HOME / "pki"


def make():
    """All of them, in HOME/pki."""
    PKI.mkdir(parents=True)
    for name in ("ca", "front-proxy-ca"):
        openssl(
            f"req -x509 -new -nodes -keyout {PKI}/{name}.key -out {PKI}/{name}.crt -days 30 -subj /CN={name} -addext basicConstraints=critical,CA:TRUE"
        )
    openssl(f"genrsa -out {PKI}/service-account.key 2048")
    issue(
        "apiserver",
        "/CN=kube-apiserver",
        names=[CONTROL, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"],
        addresses=[*ADDRESSES[CONTROL], API_SERVICE, "127.0.0.1"],
    )
    issue("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    issue("front-proxy", "/CN=front-proxy", authority="front-proxy-ca")
    kubeconfig("admin", "/O=system:masters/CN=admin")
    kubeconfig("controller-manager", "/CN=system:kube-controller-manager")
    kubeconfig("scheduler", "/CN=system:kube-scheduler")
    for node in NODES:
        kubeconfig(node, f"/O=system:nodes/CN=system:node:{node}")
    KUBECONFIG.chmod(0o600)


def issue(name, subject, names=(), addresses=(), authority="ca"):
    """A certificate with its key."""
    openssl(f"req -new -newkey rsa:2048 -nodes -keyout {PKI}/{name}.key -out {PKI}/{name}.csr -subj {subject}")
    extensions = "keyUsage=digitalSignature,keyEncipherment\nextendedKeyUsage=serverAuth,clientAuth\n"
    alternatives = [f"DNS:{n}" for n in names] + [f"IP:{a}" for a in addresses]
    if alternatives:
        extensions += "subjectAltName=" + ",".join(alternatives) + "\n"
    (PKI / f"{name}.ext").write_text(extensions)
    openssl(
        f"x509 -req -in {PKI}/{name}.csr -CA {PKI}/{authority}.crt -CAkey {PKI}/{authority}.key -CAcreateserial -days 30 -out {PKI}/{name}.crt -extfile {PKI}/{name}.ext"
    )


def kubeconfig(name, subject):
    """A client certificate in a kubeconfig, HOME/NAME.kubeconfig."""
    issue(name, subject)
    data = {
        kind: base64.b64encode((PKI / file).read_bytes()).decode()
        for kind, file in (("ca", "ca.crt"), ("cert", f"{name}.crt"), ("key", f"{name}.key"))
    }
    (HOME / f"{name}.kubeconfig").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": API_SERVER, "certificate-authority-data": data["ca"]}}],
                "users": [{"name": name, "user": {"client-certificate-data": data["cert"], "client-key-data": data["key"]}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            }
        )
    )


def openssl(arguments):
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)
