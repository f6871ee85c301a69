"""OCI images from plain files, without a container engine: layers, and the archive that `ctr images import` reads.

Used by image/oci for the product and by tests/kubernetes/images. Files are sorted and have no times, so the same input
gives the same digest.
"""

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import tempfile

# What a running system makes for itself, or only apt reads: the directory stays, its content does not.
EMPTY = ("dev", "proc", "sys", "run", "tmp", "boot", "var/lib/apt/lists", "var/cache", "var/tmp", "var/log/apt")
MEDIA = "application/vnd.oci.image"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHUNK = 1 << 20


class Digest(io.RawIOBase):
    """Hands bytes on and remembers their hash and number."""

    def __init__(self, target):
        super().__init__()
        self.target, self.hash, self.size = target, hashlib.sha256(), 0

    def writable(self):
        return True

    def write(self, data):
        self.hash.update(data)
        self.size += len(data)
        self.target.write(data)
        return len(data)

    def digest(self):
        return "sha256:" + self.hash.hexdigest()


def base_layer(rootfs, cache):
    """The layer of the root filesystem, made only when a file in it changed."""
    entries = list(walk(rootfs))
    seen = hashlib.sha256()
    for name, info in entries:
        facts = (name, info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_mtime_ns)
        seen.update(repr(facts).encode("utf-8", "surrogateescape"))
    blob = cache / f"base-{seen.hexdigest()[:16]}.tar.gz"
    record = blob.with_suffix(".json")
    if not (blob.exists() and record.exists()):
        for stale in cache.glob("base-*"):
            stale.unlink()

        def fill(archive):
            for name, _ in entries:
                add(archive, rootfs / name, name)

        write_json(record, write_layer(blob, fill))
    return {**json.loads(record.read_text()), "path": blob}


def walk(rootfs):
    """Every path below the root that belongs in the image, in order."""

    def visit(directory):
        for entry in sorted(os.scandir(rootfs / directory), key=lambda entry: entry.name):
            name = os.path.join(directory, entry.name)
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISSOCK(info.st_mode):
                continue
            yield name, info
            if entry.is_dir(follow_symlinks=False) and name not in EMPTY:
                yield from visit(name)

    return visit("")


def directory(archive, name):
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(info)


def add(archive, path, name, mode=None, link=None):
    """Adds a file: as it is, or as root's with a mode; or a symbolic link."""
    if link:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, link, 0o777
    else:
        info = archive.gettarinfo(path, name)
        info.uname = info.gname = ""
        info.mtime = 0
        if mode:
            info.mode, info.uid, info.gid = mode, 0, 0
    if info.isreg():
        with open(path, "rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def write_layer(path, fill):
    """Compresses into a file of that name, which is there whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".layer-", delete=False) as aside:
        try:
            layer = compress(aside, fill)
            aside.flush()
            os.replace(aside.name, path)
        except BaseException:
            os.unlink(aside.name)
            raise
    return layer


def compress(target, fill):
    """Writes the archive that `fill` makes, compressed: level 1, because disks are cheaper than a contributor's time."""
    packed = Digest(target)
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0, filename="") as squeezed:
        plain = Digest(squeezed)
        with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as archive:
            fill(archive)
    return {"digest": packed.digest(), "size": packed.size, "diff_id": plain.digest()}


def write_archive(out, names, architecture, layers, config):
    """Writes the OCI layout as one archive, for an image of one or more names; returns the digest of the manifest."""
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [PATH], **config},
        "rootfs": {"type": "layers", "diff_ids": [layer["diff_id"] for layer in layers]},
    }
    blobs = {}

    def descriptor(kind, value):
        data = encode(value)
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"{MEDIA}.{kind}", "digest": digest, "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": descriptor("config.v1+json", config),
        "layers": [
            {"mediaType": f"{MEDIA}.layer.v1.tar+gzip", "digest": layer["digest"], "size": layer["size"]} for layer in layers
        ],
    }
    entry = descriptor("manifest.v1+json", manifest)
    # containerd reads the first name, others the second.
    named = [
        {
            **entry,
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name},
            "platform": {"architecture": architecture, "os": "linux"},
        }
        for name in names
    ]
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": named}

    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with tarfile.open(aside, "w", format=tarfile.PAX_FORMAT) as archive:
            put(archive, "oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
            put(archive, "index.json", encode(index))
            for folder in ("blobs", "blobs/sha256"):
                directory(archive, folder)
            for digest, data in blobs.items():
                put(archive, blob_name(digest), data)
            for layer in layers:
                put_layer(archive, layer)
        os.replace(aside, out)
    finally:
        aside.unlink(missing_ok=True)
    return entry["digest"]


def put_layer(archive, layer):
    info = tarfile.TarInfo(blob_name(layer["digest"]))
    info.size = layer["size"]
    content = layer.get("file") or open(layer["path"], "rb")
    with content:
        content.seek(0)
        archive.addfile(info, content)


def put(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def blob_name(digest):
    return "blobs/" + digest.replace(":", "/")


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_json(path, value):
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(value))
    os.replace(aside, path)
