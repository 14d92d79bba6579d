"""Programs from Debian's packages, unpacked into the cache.

apt downloads the packages and checks their signatures. The packages are unpacked and not installed,
because an installed etcd or containerd would start as a service of the host.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.cache import artifact, key_of
from lab.errors import LabError
from lab.setup import building

# What the nodes and the control plane run, from the machine's own release. The tools of the pods
# are in `lab.setup.tools`.
SERVICES = (
    *("containerd", "containernetworking-plugins", "etcd-server", "libseccomp2", "runc"),
    # What kube-proxy calls.
    *("iptables", "nftables"),
)
# Without it, apt drops its privileges for downloads, cannot write into the cache, and warns.
NO_SANDBOX = ("-o", "APT::Sandbox::User=root")
OS_RELEASE = Path("/etc/os-release")


def unpacked_services() -> Path:
    """The root directory of the services' files (`usr/bin/containerd`, ...).

    The key is the machine's Debian release and architecture and the names of the packages, without
    versions, because apt's index may change from day to day. `make clean-cache` makes the lab
    download the packages again.
    """
    return artifact("debian", key_of(*machine(), *SERVICES), _download)


def machine() -> tuple[str, str]:
    """The machine's release and architecture, as parts of a key.

    Raises:
        LabError: apt or dpkg is missing.
    """
    for program in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(program) is None:
            raise LabError(
                f"{program} is missing: the lab takes etcd, containerd and iperf3 from Debian's "
                "packages, so run it on Debian or a system derived from it."
            )
    architecture = _output("dpkg", "--print-architecture").strip()
    return OS_RELEASE.read_text(encoding="utf-8"), architecture


def _download(directory: Path) -> None:
    unpack(_with_libraries(), directory)
    # The package's own script makes these names, by `update-alternatives`.
    for family, command in itertools.product(("iptables", "ip6tables"), ("", "-save", "-restore")):
        (directory / "usr" / "sbin" / f"{family}{command}").symlink_to("xtables-nft-multi")


def on_an_empty_system(names: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The packages, and all that apt would install with them on a system without any.

    Args:
        names: the packages.
        options: apt's, such as those of another release's sources.

    Raises:
        LabError: apt knows no such package.
    """
    command = [
        *("apt-get", "install", "--print-uris", "--no-install-recommends", "-qq"),
        *("-o", "Dir::State::status=/dev/null", *options, *names),
    ]
    listing = _with_index(
        command,
        options,
        problem=f"apt lacks one of {', '.join(names)}",
        remedy="check the machine's package sources",
    )
    files = re.findall(r"^'\S+' (\S+)", listing, re.M)
    return sorted({file.partition("_")[0] for file in files})


def unpack(names: Sequence[str], directory: Path, options: Sequence[str] = ()) -> None:
    """Download packages and unpack their files under a directory.

    Args:
        names: the packages.
        directory: an existing directory.
        options: apt's, such as those of another release's sources.

    Raises:
        LabError: apt cannot download a package.
    """
    packages = directory / "packages"
    packages.mkdir()
    command = ["apt-get", "download", "-q", *NO_SANDBOX, *options, *names]
    _with_index(
        command,
        options,
        problem="Debian's packages cannot be downloaded",
        remedy="check the network and `apt-get update`",
        cwd=packages,
    )
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(directory)], check=True)
    shutil.rmtree(packages)


def update_index(options: Sequence[str] = ()) -> None:
    """Update apt's index of packages.

    Args:
        options: apt's, such as those of another release's sources.

    Raises:
        LabError: apt cannot update it.
    """
    building.run(
        ["apt-get", "update", "-q", *options],
        problem="apt-get update failed",
        remedy="check the network and the machine's package sources",
    )


def _with_index(command: Sequence[str], options: Sequence[str] = (), **more: Any) -> str:
    """Run a command that reads apt's index, again with a newer index if it fails.

    Takes what `building.run` takes, and returns and raises the same.
    """
    try:
        return building.run(command, **more)
    except LabError:
        update_index(options)
        return building.run(command, **more)


def _with_libraries() -> list[str]:
    """The services, with the shared libraries that they depend on and the host lacks."""
    command = ["apt-cache", "depends", "--recurse", "--important", *SERVICES]
    listing = _with_index(
        command,
        problem="apt cannot list what the lab's services depend on",
        remedy="check the machine's package sources",
    )
    # A line that starts with a name is a package; its dependencies are indented below it.
    packages = {line for line in listing.splitlines() if re.fullmatch(r"[a-z0-9.+-]+", line)}
    lacking = {name for name in packages if name.startswith("lib")} - _installed()
    return sorted({*SERVICES, *lacking})


def _installed() -> set[str]:
    """The packages of the host."""
    listing = _output("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n")
    return {line.split()[1] for line in listing.splitlines() if line.startswith("installed ")}


def library_path(root: Path) -> str:
    """`LD_LIBRARY_PATH` for programs under `root`."""
    directories = {
        str(library.parent)
        for pattern in ("lib/*/lib*.so*", "usr/lib/*/lib*.so*")
        for library in root.glob(pattern)
    }
    return os.pathsep.join(sorted(directories))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
