"""What a lab may leave on the machine: found by looking, not by asking the lab."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import control_groups
from lab.cache import cache_directory
from lab.daemon import BUILT_IN_DIRECTORIES, process_start_time, state_directory

# Where programs of the lab would write if the lab did not keep them from it.
WATCHED_DIRECTORIES = (
    *("/run", "/run/netns", "/var/lib", "/var/lib/cni", "/var/lib/kubelet", "/var/log"),
    *("/var/log/containers", "/etc", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/opt"),
    *("/opt/cni", "/usr/libexec", "/dev/shm"),
)
PRIVATE_CACHES = "test-labs"
# What other programs of the machine make there while a test runs.
FOREIGN = ("/run/user", "/run/systemd")

# What only a lab with large workloads has made.
LARGE = ("cargo", "crates", "jars", "large-images", "large-tools")
# What a cache holds of one lab alone; everything else labs can share.
OF_ONE_LAB = ("lab", "last-lab", PRIVATE_CACHES)

Process = tuple[int, str]


def private_cache(name: str) -> Path:
    """A cache with all that the user's cache has made, for one more lab beside others.

    Returns the value of XDG_CACHE_HOME for it. What is made later is made in the private one.
    """
    shared = cache_directory()
    home = shared / PRIVATE_CACHES / name
    private = home / "rackrate"
    private.mkdir(parents=True, exist_ok=True)
    for entry in shared.iterdir():
        link = private / entry.name
        if entry.is_dir() and entry.name not in OF_ONE_LAB and not link.exists():
            link.symlink_to(entry)
    return home


@dataclass(frozen=True)
class Traces:
    """What can be seen of labs from outside of them."""

    mounts: frozenset[str]
    links: frozenset[str]
    namespaces: frozenset[str]
    routes: frozenset[str]
    files: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        """The machine as it is."""
        return cls(
            mounts=frozenset(
                line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
            ),
            links=frozenset(
                line.split(":")[1].strip() for line in _lines("ip", "-oneline", "link")
            ),
            namespaces=frozenset(_lines("ip", "netns")),
            routes=frozenset(_lines("ip", "route")),
            files=frozenset(
                str(path)
                for directory in map(Path, WATCHED_DIRECTORIES)
                if directory.is_dir()
                for path in directory.iterdir()
                if not str(path).startswith(FOREIGN)
            ),
        )


def lab_processes() -> set[Process]:
    """Every process in the lab's control groups, by its id out here and its start time."""
    processes: set[Process] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if f"/{control_groups.name()}" in (entry / "cgroup").read_text():
                started = process_start_time(int(entry.name))
                if started is not None:
                    processes.add((int(entry.name), started))
    return processes


def process_1() -> int:
    """The id out here of the first process in the lab."""
    return int((state_directory() / "region.pid").read_text("ascii"))


def descendants(pid: int) -> set[int]:
    """A process, its children, theirs, and so on."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it has ended or only begins."""
    try:
        entries = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def alive(processes: set[Process]) -> set[Process]:
    """Those that have not ended; a zombie has."""
    return {
        (pid, started)
        for pid, started in processes
        if process_start_time(pid) == started and _state(pid) not in ("Z", "X")
    }


def what_is_left(before: Traces, processes: set[Process]) -> dict[str, object]:
    """What a lab that is gone has left behind, by kind; empty when it is as it should be."""
    after = Traces.now()
    caches = {
        # An interrupted build of Go programs goes on in `go`.
        *("chromium", "debian", "functions", "go", "go-toolchain", "images", "kubernetes", "kwok"),
        *("last-lab", "modules", "storage", "tools", *LARGE, "uv", "uv-cache", PRIVATE_CACHES),
    }
    left: dict[str, object] = {
        "processes": alive(processes | lab_processes()),
        "mounts": after.mounts - before.mounts,
        "links": after.links - before.links,
        "network namespaces": after.namespaces - before.namespaces,
        "routes": after.routes - before.routes,
        "control groups": [tree for tree in control_groups.trees() if tree.exists()],
        "files": {path for path in after.files - before.files if not _of_another_lab(path)},
        "in the cache": {
            path.name
            for path in cache_directory().iterdir()
            if path.name not in caches and path.suffix != ".lock"
        },
    }
    return {kind: leftovers for kind, leftovers in left.items() if leftovers}


def _of_another_lab(path: str) -> bool:
    """Does a lab of another cache, which runs at the same time, hold this directory?"""
    if Path(path) not in BUILT_IN_DIRECTORIES:
        return False
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(directory)
    return False


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2][1]
    return "X"


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
