"""The container images of the lab: the measuring tools and the pod sandbox, as one OCI archive.

The lab builds them from unpacked Debian packages and Go modules, so it needs no registry. The image
of the tools has the programs, the C library of their own release and the shared libraries that its
dynamic linker names.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from lab.cache import artifact, key_of
from lab.setup import tools
from lab.setup.large import Large

TOOLS_IMAGE = "rackrate.lab/tools:debian"
PAUSE_IMAGE = "rackrate.lab/pause:1"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def archive(root: Path, modules: Path, pause: Path, large: Large | None = None) -> Path:
    """The OCI archive of both images, ready for `ctr images import`.

    Args:
        root: where the tools' packages are unpacked.
        modules: the directory of the tools built from Go modules.
        pause: the program of the pods' sandboxes.
        large: the programs of large workloads; None if the image is to have none.
    """
    sources = [" ".join(tools.PROGRAMS), root.name, modules.name]
    sources += [] if large is None else [path.name for path in large]
    key = key_of(Path(__file__).read_bytes(), *sources, pause.read_bytes())

    def build(directory: Path) -> None:
        _write_archive(
            directory / "images.tar",
            {
                TOOLS_IMAGE: (
                    _tools_layer(root, modules, large),
                    {"Cmd": ["/usr/bin/iperf3", "--version"]},
                ),
                PAUSE_IMAGE: (_layer({"/pause": pause}), {"Entrypoint": ["/pause"]}),
            },
        )

    return artifact("images" if large is None else "large-images", key, build) / "images.tar"


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


def _tools_layer(root: Path, modules: Path, large: Large | None) -> bytes:
    # Programs of Go modules are static.
    files = {f"/usr/bin/{program.name}": program for program in modules.iterdir()}
    for name in tools.PROGRAMS:
        # Put all programs into /usr/bin, so that PATH finds them in any layout of Debian's.
        files[f"/usr/bin/{name}"] = tools.program(root, name)
        files |= _libraries_of(tools.program(root, name), root)
    links = {}
    if large is not None:
        for program in large.crates.iterdir():
            files[f"/usr/bin/{program.name}"] = program
            files |= _libraries_of(program, large.root)
        (java,) = large.root.glob(_JAVA)
        files |= _java(java, large.root)
        # Java finds its own files by the place of its program.
        links["/usr/bin/java"] = f"/{java.relative_to(large.root)}/bin/java"
        files |= {f"/opt/cassandra/lib/{jar.name}": jar for jar in large.jars.iterdir()}
    return _layer(files, links, directories=("/tmp", "/etc", "/proc", "/sys", "/dev", "/run"))


#: Where Debian's packages have Java, and what of it names libraries besides its own.
_JAVA = "usr/lib/jvm/java-[0-9][0-9]-openjdk-*"
_JAVA_LOADS = ("bin/java", "lib/server/libjvm.so")


def _java(java: Path, root: Path) -> dict[str, Path]:
    """The files of Java and the libraries that it loads, by their paths in pods."""
    files = {}
    for path in java.rglob("*"):
        # Its configuration is in /etc, by links, and here in its place.
        target = root / str(path.readlink()).lstrip("/") if path.is_symlink() else path
        if target.is_file():
            files[f"/{path.relative_to(root)}"] = target
    own = {path.name for path in java.rglob("*.so")}
    for name in _JAVA_LOADS:
        loaded = _libraries_of(java / name, root)
        files |= {path: file for path, file in loaded.items() if file.name not in own}
    return files


def _libraries_of(program: Path, root: Path) -> dict[str, Path]:
    """The shared libraries of a program and its loader, by the paths at which pods look for them.

    Raises:
        RuntimeError: the packages lack one of them.
    """
    # Without the loader's cache, which is of the machine's own libraries.
    command = (*tools.loader(root), "--inhibit-cache", "--list", str(program))
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    libraries = re.findall(r"(\S+) => (/\S+) ", listing.stdout)
    if listing.returncode != 0 or not all(Path(path).is_relative_to(root) for _, path in libraries):
        raise RuntimeError(
            f"the packages lack a library of {program.name}:\n{listing.stdout}{listing.stderr}"
        )
    # A program names its loader by path, and its libraries by name.
    return {name if "/" in name else f"/lib/{name}": Path(path) for name, path in libraries}


def _layer(
    files: dict[str, Path],
    links: Mapping[str, str] | None = None,
    directories: tuple[str, ...] = (),
) -> bytes:
    """A layer as an uncompressed tar; the same content gives the same bytes."""
    buffer, links = io.BytesIO(), links or {}
    parents = {str(parent) for name in (*files, *links) for parent in Path(name).parents}
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
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
    return buffer.getvalue()


def _write_archive(path: Path, images: dict[str, tuple[bytes, dict[str, object]]]) -> None:
    blobs: dict[str, bytes] = {}

    def stored(kind: str, content: bytes) -> dict[str, object]:
        """The descriptor of a blob, which this keeps."""
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    manifests = []
    for name, (layer, settings) in images.items():
        of_layer = stored("layer.v1.tar", layer)
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": [f"PATH={PATH}"], "User": "65532:65532", **settings},
            "rootfs": {"type": "layers", "diff_ids": [of_layer["digest"]]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": stored("config.v1+json", json.dumps(config).encode()),
            "layers": [of_layer],
        }
        of_manifest = stored("manifest.v1+json", json.dumps(manifest).encode())
        # A reference with a digest is known only by the name that contains it.
        for reference in (name, _pinned(name, str(of_manifest["digest"]))):
            manifests.append(
                {**of_manifest, "annotations": {"io.containerd.image.name": reference}}
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
