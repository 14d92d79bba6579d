"""The lab's control groups, which measure its memory and make it possible to clean up after it.

Version 1 has a tree per controller, version 2 one for all. In both, `services` holds the lab's
programs and `pods` the containers, by node. The tree is named after the cache. Each cache has one
lab, so a lab never removes the groups of another.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lab.cache import cache_directory, key_of

ROOT = Path("/sys/fs/cgroup")
PARTS = ("services", "pods", "lambda")


def name() -> str:
    """The name of the tree."""
    return f"rackrate-lab-{key_of(str(cache_directory().resolve()))}"


def unified() -> bool:
    """Whether the machine has only control groups version 2."""
    return (ROOT / "cgroup.controllers").exists()


def trees() -> list[Path]:
    """The lab's top groups, one per hierarchy, whether they exist or not."""
    if unified():
        return [ROOT / name()]
    return [
        hierarchy / name()
        for hierarchy in sorted(ROOT.iterdir())
        if (hierarchy / "cgroup.procs").exists() and not hierarchy.is_symlink()
    ]


def create() -> None:
    """Make the groups. On version 2, enable the controllers in the parts too."""
    for tree in trees():
        _make(tree)
        for part in PARTS:
            _make(tree / part)


def make_for_pods(node: str) -> str:
    """Make the group of a node's pods. Returns its path, as a kubelet's `cgroupRoot`."""
    for tree in trees():
        _make(tree / "pods" / node)
    return f"/{name()}/pods/{node}"


def remove_for_pods(node: str) -> None:
    """Remove the group of a node's pods, once its containers have ended."""
    for tree in trees():
        _remove(tree / "pods" / node)


def _make(group: Path) -> None:
    group.mkdir(exist_ok=True)
    if unified():
        _pass_down(group.parent)
    elif group.is_relative_to(ROOT / "cpuset"):
        _inherit_cpuset(group)


def enter(part: str) -> None:
    """Move the calling process into a part of the tree; its later children start there."""
    for tree in trees():
        with contextlib.suppress(OSError):
            (tree / part / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def exist() -> bool:
    """Whether any group of a lab is there."""
    return any(tree.exists() for tree in trees())


def remove() -> None:
    """Remove the groups that hold no process."""
    for tree in trees():
        _remove(tree)


def _remove(group: Path) -> None:
    for directory, _, _ in sorted(os.walk(group), reverse=True):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()


def peak_memory_bytes() -> int | None:
    """The peak memory of the whole lab; None where the kernel does not report it."""
    for path in (
        ROOT / name() / "memory.peak",
        ROOT / "memory" / name() / "memory.max_usage_in_bytes",
    ):
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text("ascii"))
    return None


def _pass_down(group: Path) -> None:
    controllers = (group / "cgroup.controllers").read_text("ascii").split()
    for controller in controllers:
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")


def _inherit_cpuset(group: Path) -> None:
    for setting in ("cpuset.cpus", "cpuset.mems"):
        value = (group.parent / setting).read_text("ascii").strip()
        with contextlib.suppress(OSError):
            (group / setting).write_text(value, encoding="ascii")
