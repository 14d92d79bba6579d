"""The container images of the lab: the measuring tools and the pod sandbox, as one OCI archive.

The lab builds them from the unpacked Debian packages, the shared libraries that the dynamic linker
names, and programs built from Go modules, so it needs no registry. The tools' image has no shell,
because pods run an argv.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from lab.cache import artifact, key_of
from lab.setup.debian import PROGRAMS, TOOLS, library_path

TOOLS_IMAGE = "rackrate.lab/tools:debian"
PAUSE_IMAGE = "rackrate.lab/pause:1"
# Programs of the host itself, whose C library the other tools use too. `cat` prints the kernel's
# counters; `sleep` runs in pods that only have to exist.
HOST_TOOLS = ("cat", "sleep")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def archive(debian_root: Path, modules: Path, pause: Path) -> Path:
    """The OCI archive of both images, ready for `ctr images import`.

    Args:
        debian_root: the root of the unpacked packages.
        modules: the directory of the programs built from Go modules.
        pause: the program of the pod sandbox.
    """
    sources = (" ".join(PROGRAMS), debian_root.name, modules.name)
    key = key_of(Path(__file__).read_bytes(), *sources, pause.read_bytes())

    def build(directory: Path) -> None:
        _write_archive(
            directory / "images.tar",
            {
                TOOLS_IMAGE: (
                    _tools_layer(debian_root, modules),
                    {"Cmd": ["/usr/bin/iperf3", "--version"]},
                ),
                PAUSE_IMAGE: (_layer({"/pause": pause}), {"Entrypoint": ["/pause"]}),
            },
        )

    return artifact("images", key, build) / "images.tar"


def tools_reference(images: Path) -> str:
    """The tools' image with its digest, as an archive of `archive` has it."""
    with tarfile.open(images) as opened:
        index = json.load(opened.extractfile("index.json") or io.BytesIO())
    (reference,) = {
        _pinned(TOOLS_IMAGE, manifest["digest"])
        for manifest in index["manifests"]
        if manifest["annotations"]["io.containerd.image.name"] == TOOLS_IMAGE
    }
    return reference


def _pinned(name: str, digest: str) -> str:
    return f"{name.rsplit(':', 1)[0]}@{digest}"


def _tools_layer(root: Path, modules: Path) -> bytes:
    files: dict[str, Path] = {}
    programs = [
        *(_unpacked_program(root, name) for name, package in PROGRAMS.items() if package in TOOLS),
        *map(_host_program, HOST_TOOLS),
    ]
    for program in programs:
        # Put all programs into /usr/bin, so that PATH finds them in any layout of Debian's.
        files[f"/usr/bin/{program.name}"] = program
        files |= _libraries_of(program, root)
    # These are static.
    files |= {f"/usr/bin/{program.name}": program for program in modules.iterdir()}
    return _layer(files, directories=("/tmp", "/etc", "/proc", "/sys", "/dev", "/run"))


def _unpacked_program(root: Path, name: str) -> Path:
    for directory in ("usr/bin", "bin", "usr/sbin", "sbin"):
        if (found := root / directory / name).exists():
            return found
    raise RuntimeError(f"{PROGRAMS[name]}, as image/programs.txt has it, holds no {name}")


def _host_program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"the host has no {name}")
    return Path(found)


def _libraries_of(program: Path, root: Path) -> dict[str, Path]:
    """The shared libraries of a program, by the paths at which the linker looks for them."""
    listing = subprocess.run(
        ["ldd", str(program)],
        env=os.environ | {"LD_LIBRARY_PATH": library_path(root)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "not found" in listing:
        raise RuntimeError(f"a library of {program.name} is missing:\n{listing}")
    libraries = {}
    for line in listing.splitlines():
        if found := re.search(r"(\S+) => (/\S+)", line):
            libraries[f"/lib/{found[1]}"] = Path(found[2])
        elif found := re.match(r"\s*(/\S+/ld-\S+)", line):
            libraries[found[1]] = Path(found[1])
    return libraries


def _layer(files: dict[str, Path], directories: tuple[str, ...] = ()) -> bytes:
    """A layer as an uncompressed tar; the same content gives the same bytes."""
    buffer = io.BytesIO()
    parents = {str(parent) for name in files for parent in Path(name).parents}
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for directory in sorted({*parents, *directories} - {"/", "."}):
            entry = tarfile.TarInfo(directory.lstrip("/"))
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if directory == "/tmp" else 0o755
            layer.addfile(entry)
        for name, source in sorted(files.items()):
            content = source.read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size = len(content)
            entry.mode = 0o755
            layer.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _write_archive(path: Path, images: dict[str, tuple[bytes, dict[str, object]]]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> tuple[str, int]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return f"sha256:{digest}", len(content)

    manifests = []
    for name, (layer, settings) in images.items():
        layer_digest, layer_size = blob(layer)
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": [f"PATH={PATH}"], "User": "65532:65532", **settings},
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }
        config_digest, config_size = blob(json.dumps(config).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": config_digest,
                "size": config_size,
            },
            "layers": [
                {
                    "mediaType": "application/vnd.oci.image.layer.v1.tar",
                    "digest": layer_digest,
                    "size": layer_size,
                }
            ],
        }
        digest, size = blob(json.dumps(manifest).encode())
        # A reference with a digest is known only by the name that contains it.
        for known_as in (name, _pinned(name, digest)):
            manifests.append(
                {
                    "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "digest": digest,
                    "size": size,
                    "annotations": {"io.containerd.image.name": known_as},
                }
            )
    index = {"schemaVersion": 2, "manifests": manifests}
    with tarfile.open(path, "w") as output:
        members = {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps(index).encode(),
            **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
        }
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            output.addfile(entry, io.BytesIO(content))
