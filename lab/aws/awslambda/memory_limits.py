"""Memory limits of Lambda workers: a cgroup where one can be made, else a watchdog."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
from pathlib import Path

LOG = logging.getLogger(__name__)

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_numbers = itertools.count()


class MemoryLimiter:
    """Makes one memory cgroup per worker below the daemon's own, if the machine allows it."""

    def __init__(self) -> None:
        self._parent, self._limit_file, why = _find_parent()
        self.uses_cgroups = self._parent is not None
        self._remove_stale()
        if not self.uses_cgroups:
            LOG.warning(
                "no writable memory cgroup (%s): Lambda memory limits are enforced by watching"
                " the resident size of the workers",
                why,
            )

    def limit(self, pid: int, limit_bytes: int) -> Path | None:
        """Put a process under a limit. Returns its group, or None when it gets none."""
        if self._parent is None:
            return None
        group = self._parent / f"rackrate-lambda-{os.getpid()}-{next(_numbers)}"
        try:
            group.mkdir()
            (group / self._limit_file).write_text(str(limit_bytes))
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            self.remove(group)  # the process has ended, which the thread that waits for it sees
        except OSError as error:
            LOG.warning("memory cgroup %s: %s", group, error)
            self.remove(group)
            return None
        return group

    def close(self, group: Path | None) -> bool:
        """Lower a group's limit to what its processes have. False without such a group."""
        if group is None:
            return False
        usage = "memory.current" if self._limit_file == "memory.max" else "memory.usage_in_bytes"
        for _ in range(100):
            # The memory may grow between the two; a limit below it is refused.
            with contextlib.suppress(OSError):
                (group / self._limit_file).write_text((group / usage).read_text())
                return True
        return False

    def _remove_stale(self) -> None:
        """Remove the groups of daemons that were killed."""
        for group in self._parent.glob("rackrate-lambda-*") if self._parent else ():
            if not Path("/proc", group.name.split("-")[2]).exists():
                self.remove(group)

    @staticmethod
    def remove(group: Path | None) -> None:
        """Remove a group whose processes have ended; the kernel may need a moment to notice."""
        pause = threading.Event()
        for _ in range(50):
            if group is None or not group.exists():
                return
            with contextlib.suppress(OSError):
                group.rmdir()
                return
            pause.wait(0.02)


def _find_parent() -> tuple[Path | None, str, str]:
    """The daemon's own memory cgroup and the name of the limit's file, or why there is none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError as error:
        return None, "", str(error)
    reason = "no memory controller"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base, limit_file = _CGROUP_ROOT / "memory", "memory.limit_in_bytes"
        elif controllers == "":
            base, limit_file = _CGROUP_ROOT, "memory.max"
        else:
            continue
        # A mount from another cgroup namespace may lack the path; its root then is our group.
        for parent in (base / path.lstrip("/"), base):
            probe = parent / f"rackrate-probe-{os.getpid()}-{next(_numbers)}"
            try:
                probe.mkdir()
            except OSError as error:
                reason = f"{parent}: {error.strerror}"
                continue
            usable = (probe / limit_file).exists()
            with contextlib.suppress(OSError):
                probe.rmdir()
            if usable:
                return parent, limit_file, ""
            reason = f"{parent}: the memory controller is not delegated"
    return None, "", reason


def resident_bytes(pid: int) -> int:
    """Resident size of a process now; 0 when it has ended."""
    return _status_field(pid, "VmRSS:")


def peak_resident_bytes(pid: int) -> int:
    """The largest resident size a process had; 0 when it has ended."""
    return _status_field(pid, "VmHWM:")


def processor_seconds(pid: int) -> float:
    """What a process has used of the processor so far; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0
    # The name before may have spaces (proc(5), /proc/pid/stat, fields 14 and 15).
    user, system = status.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _status_field(pid: int, name: str) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
