"""Programs from Debian's packages, unpacked into the cache.

apt downloads the packages and checks their signatures. The packages are unpacked and not installed,
because an installed etcd or containerd would start as a service of the host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.cache import artifact, key_of
from lab.errors import LabError

# What the nodes and the control plane run.
SERVICES = ("containerd", "containernetworking-plugins", "etcd-server", "libseccomp2", "runc")
# The programs that the measuring pods run, each with its package or the path of its Go module. The
# stack's own image uses the same list.
PROGRAMS = dict(
    line.split()
    for line in (Path(__file__).parents[2] / "image" / "programs.txt").read_text().splitlines()
)
TOOLS = tuple(sorted({package for package in PROGRAMS.values() if "/" not in package}))
# Libraries that a small Debian may lack; they are unpacked even when this host has them. The C
# library and related ones come from the host, because a second one beside it would not load.
LIBRARIES = re.compile(r"^lib(cap2|idn2|iperf|mnl|sctp|ssl|unistring)")


def unpacked_packages() -> Path:
    """The root directory of the packages' files (`usr/bin/containerd`, ...).

    The key is the machine's Debian release and architecture and the names of the packages, without
    versions. apt's index may change from day to day, and a tool that is updated during a comparison
    would be a confounder. `make clean-cache` makes the lab download the packages again.
    """
    for program in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(program) is None:
            raise LabError(
                f"{program} is missing: the lab takes etcd, containerd and iperf3 from Debian's "
                "packages, so run it on Debian or a system derived from it."
            )
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    architecture = _output("dpkg", "--print-architecture").strip()
    key = key_of(release, architecture, *SERVICES, *TOOLS)
    return artifact("debian", key, _download)


def _download(directory: Path) -> None:
    unpack(_with_libraries(), directory)


def unpack(names: Sequence[str], directory: Path) -> None:
    """Download packages and unpack their files under a directory.

    Raises:
        LabError: apt cannot download a package.
    """
    packages = directory / "packages"
    packages.mkdir()
    # Without the option, apt drops its privileges for downloads, cannot write here, and warns.
    command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *names]
    attempt = subprocess.run(command, cwd=packages, capture_output=True, text=True, check=False)
    if attempt.returncode != 0:
        update_index()
        attempt = subprocess.run(command, cwd=packages, capture_output=True, text=True, check=False)
    if attempt.returncode != 0:
        reason = (attempt.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(
            f"Debian's packages cannot be downloaded ({reason}): check the network and "
            "`apt-get update`, then run the command again."
        )
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(directory)], check=True)
    shutil.rmtree(packages)


def update_index() -> None:
    """Update apt's index of packages.

    Raises:
        LabError: apt cannot update it.
    """
    update = subprocess.run(
        ["apt-get", "update", "-q"], capture_output=True, text=True, check=False
    )
    if update.returncode != 0:
        reason = (update.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(
            f"apt-get update failed ({reason}): check the network and the machine's package "
            "sources, then run the command again."
        )


def _with_libraries() -> list[str]:
    """The packages, with the shared libraries that they depend on and the host may lack."""
    command = ["apt-cache", "depends", "--recurse", "--important", *SERVICES, *TOOLS]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        update_index()
        listing = subprocess.run(command, capture_output=True, text=True, check=True)
    # A line that starts with a name is a package; its dependencies are indented below it.
    packages = {line for line in listing.stdout.splitlines() if re.fullmatch(r"[a-z0-9.+-]+", line)}
    lacking = {name for name in packages if name.startswith("lib")} - _installed()
    return sorted({*SERVICES, *TOOLS, *lacking, *filter(LIBRARIES.match, packages)})


def _installed() -> set[str]:
    """The packages of the host."""
    listing = _output("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n")
    return {line.split()[1] for line in listing.splitlines() if line.startswith("installed ")}


def library_path(root: Path) -> str:
    """`LD_LIBRARY_PATH` for programs under `root`."""
    directories = {
        str(found.parent)
        for pattern in ("lib/*/lib*.so*", "usr/lib/*/lib*.so*")
        for found in root.glob(pattern)
    }
    return os.pathsep.join(sorted(directories))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
