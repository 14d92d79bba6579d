"""Checks of what a machine must have; each error is one sentence that says how to fix it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

from lab.cache import cache_directory
from lab.errors import LabError

LEAST_MEMORY_BYTES = 3 * 1024**3
LEAST_DISK_BYTES = 2 * 1024**3
# A first build of Kubernetes also needs space for its modules and the compiler's cache.
LEAST_DISK_TO_BUILD_BYTES = 8 * 1024**3
#: How many inotify instances root may have. A node's kubelet and containerd hold about nine, and
#: with Linux's 128 the kubelets of three labs, or of fifteen nodes, end with "too many open files".
INOTIFY_LIMIT, INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances"), 1024
TUNGETFEATURES = 0x800454CF
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "mount": "mount"}


def check() -> None:
    """Check the machine. Raises LabError naming the first thing that is missing."""
    if sys.platform != "linux":
        raise LabError("The lab needs Linux: run it on a Debian machine or virtual machine.")
    if os.geteuid() != 0:
        raise LabError("The lab makes network namespaces and needs root: run it again with sudo.")
    _check_tun()
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise LabError(f"{program} is missing: apt-get install {package}.")
    _check_memory()
    _check_disk()


def allow_watches() -> None:
    """Raise the machine's limit of inotify instances if it is lower than labs need.

    It stays, because another lab may have begun since, and a process that holds fewer notices
    nothing. Raises LabError where it may not be raised.
    """
    if int(INOTIFY_LIMIT.read_text("ascii")) >= INOTIFY_INSTANCES:
        return
    try:
        INOTIFY_LIMIT.write_text(str(INOTIFY_INSTANCES), "ascii")
    except OSError as error:
        raise LabError(
            f"The nodes need more inotify instances, and {INOTIFY_LIMIT} cannot be written"
            f" ({error.strerror}): run `sysctl fs.inotify.max_user_instances={INOTIFY_INSTANCES}`"
            " on the machine that this container is on."
        ) from error


def _check_tun() -> None:
    try:
        device = os.open("/dev/net/tun", os.O_RDWR)
        try:
            # The path may be another kind of file, as in a container made without the device.
            fcntl.ioctl(device, TUNGETFEATURES, bytes(4))
        finally:
            os.close(device)
    except OSError as error:
        raise LabError(
            f"/dev/net/tun cannot be opened ({error.strerror}): load it with `modprobe tun`, or "
            "give this container the device with `--device /dev/net/tun`."
        ) from error


def _check_memory() -> None:
    fields = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines()
    )
    available = int(fields["MemAvailable"].split()[0]) * 1024
    if available < LEAST_MEMORY_BYTES:
        raise LabError(
            f"Too little memory: {_gibibytes(available)} GiB are free and the lab needs "
            f"{_gibibytes(LEAST_MEMORY_BYTES)}; end other programs or use a larger machine."
        )


def _check_disk() -> None:
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    built = (directory / "kubernetes").is_dir()
    least = LEAST_DISK_BYTES if built else LEAST_DISK_TO_BUILD_BYTES
    free = shutil.disk_usage(directory).free
    if free < least:
        raise LabError(
            f"Too little disk: {_gibibytes(free)} GiB are free at {directory} and the lab needs "
            f"{_gibibytes(least)}; make room, or set XDG_CACHE_HOME to a larger disk."
        )


def _gibibytes(count: int) -> str:
    return f"{count / 1024**3:.1f}"
