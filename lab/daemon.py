"""The lab's process tree: one process outside, everything else inside namespaces of its own.

    outside   the keeper: holds the lock, the listening sockets of the host's loopback and the lab's
              control groups; removes what is left after the inside has ended for any reason
    inside    process 1 of a new PID, mount, network and IPC namespace: reaps orphans
      region  the emulated AWS, and below it every program of the lab

When process 1 ends, the kernel ends every process of its PID namespace. With the last of them go
the mounts, network namespaces and links. So nothing of a lab can outlive it, however it was
killed. Only files and empty control groups can stay, which the keeper, or the next `up`,
removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import control_groups, waiting
from lab.cache import cache_directory
from lab.errors import LabError

PR_SET_PDEATHSIG = 1
AWS_PORT = 4560
KUBERNETES_PORT = 6440
PORTS_TO_TRY = 40
# Kubernetes' programs write to these directories whatever their settings say. The inside mounts
# memory on them, so that neither the host nor its own kubelet sees these files.
KUBELET_DIRECTORY = Path("/var/lib/kubelet")
BUILT_IN_DIRECTORIES = (Path("/var/lib/cni"), KUBELET_DIRECTORY, Path("/var/log/containers"))
# The state directory's name inside. A socket's path has at most 107 bytes, and one below a user's
# home may be longer.
INSIDE = Path("/run/lab")
# The mode of those directories that a lab made as mount points; nobody else uses this mode.
MADE_BY_A_LAB = 0o1700


def state_directory() -> Path:
    """Where a running lab keeps its files; removed when it goes down."""
    return cache_directory() / "lab"


def last_logs() -> Path:
    """Where the logs of the lab that ended last are."""
    return cache_directory() / "last-lab"


@dataclass(frozen=True)
class Settings:
    """The settings with which a lab starts; without a seed every node has the same place.

    With `kwok`, its program, the nodes are simulated.
    """

    network_scale: float
    seed: int | None
    stretch: float
    programs: str
    kubernetes: str
    images: str
    aws_port: int
    kubernetes_port: int
    kwok: str | None = None


def acquire_lock() -> int:
    """The lock of the user's one lab, as a file descriptor. Raises LabError when it is held."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / "lab.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LabError(
            "A lab is already up or another demo is running: use it, or end it with "
            "`make lab-down`, then run the command again."
        ) from None
    return lock


def remove_leftovers() -> None:
    """Remove what an ended lab left: control groups and files. The lock must be held."""
    control_groups.remove()
    _remove_mount_points()
    state = state_directory()
    _keep_logs(state)
    if state.exists():
        shutil.rmtree(state, ignore_errors=True)
        if state.exists():
            subprocess.run(["rm", "-rf", "--one-file-system", str(state)], check=False)


def _hold_mount_points() -> list[int]:
    """Make the built-in directories that the host lacks.

    Returns descriptors that hold a shared lock on each. Without the lock another lab could remove
    a directory, and the mount on it would go too.
    """
    held = []
    for path in BUILT_IN_DIRECTORIES:
        while True:
            with contextlib.suppress(FileExistsError):
                path.mkdir(MADE_BY_A_LAB)
            # A lab that ends may remove the directory before this one has locked it.
            with contextlib.suppress(FileNotFoundError):
                directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(directory, fcntl.LOCK_SH)
                if path.exists() and os.path.samestat(path.stat(), os.fstat(directory)):
                    held.append(directory)
                    break
                os.close(directory)
    return held


def _remove_mount_points() -> None:
    """Remove the directories that a lab made to mount on, unless another lab holds them."""
    for path in BUILT_IN_DIRECTORIES:
        with contextlib.suppress(OSError):
            if stat.S_IMODE(path.stat().st_mode) != MADE_BY_A_LAB:
                continue
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.rmdir()
            finally:
                os.close(directory)


def _keep_logs(state: Path) -> None:
    """Keep the logs of the lab that ended, so that a user can find out why it ended."""
    paths = [path for path in (state / "lab.log", state / "logs", state / "aws") if path.exists()]
    if not paths:
        return
    shutil.rmtree(last_logs(), ignore_errors=True)
    last_logs().mkdir(parents=True)
    for path in paths:
        logs = [path] if path.is_file() else [*path.rglob("*.log")]
        for log in logs:
            with contextlib.suppress(OSError):
                shutil.move(log, last_logs() / log.name)


def last_log() -> list[str]:
    """The lines of the running or else the last lab's own log."""
    for directory in (state_directory(), last_logs()):
        with contextlib.suppress(OSError):
            return (directory / "lab.log").read_text("utf-8", errors="replace").splitlines()
    return []


def listen(first_port: int) -> socket.socket:
    """A listening socket of the host's loopback, at the first free port from `first_port` on."""
    for port in range(first_port, first_port + PORTS_TO_TRY):
        # Two labs that start at the same instant can both bind a port. Only one can listen.
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port), backlog=128)
    raise LabError(
        f"No port from {first_port} to {first_port + PORTS_TO_TRY - 1} is free on 127.0.0.1: end "
        "what uses them, then run the command again."
    )


def start(
    *,
    programs: Path,
    kubernetes: Path,
    images: Path,
    network_scale: float,
    lock: int,
    tied: bool,
    seed: int | None = None,
    stretch: float = 1.0,
    kwok: Path | None = None,
) -> int:
    """Start a keeper as a child process and return its id. The keeper takes over `lock`.

    `seed` and `stretch` decide the nodes' places (`lab.fabric.luck.Luck`). A tied lab goes down
    when the calling process ends for any reason. Without a free port the lock is released.
    """
    state = state_directory()
    remove_leftovers()
    state.mkdir(parents=True)
    try:
        aws, kubernetes_api = listen(AWS_PORT), listen(KUBERNETES_PORT)
    except LabError:
        os.close(lock)
        raise
    settings = Settings(
        network_scale=network_scale,
        seed=seed,
        stretch=stretch,
        programs=str(programs),
        kubernetes=str(kubernetes),
        images=str(images),
        aws_port=aws.getsockname()[1],
        kubernetes_port=kubernetes_api.getsockname()[1],
        kwok=None if kwok is None else str(kwok),
    )
    descriptors = [lock, aws.fileno(), kubernetes_api.fileno()]
    with (state / "lab.log").open("ab") as log:
        keeper = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lab.daemon",
                json.dumps(asdict(settings)),
                *map(str, descriptors),
                str(os.getpid()) if tied else "0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,
        )
    aws.close()
    kubernetes_api.close()
    os.close(lock)
    return keeper.pid


def keep(settings: Settings, lock: int, listeners: list[int], tied_to: int) -> int:
    """The keeper: run the inside, wait for its end or for a signal, clean up."""
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if tied_to:
        die_with_parent(signal.SIGTERM)
        if os.getppid() != tied_to:
            return 0
    (state_directory() / "keeper.pid").write_text(
        f"{os.getpid()} {process_start_time(os.getpid())}", encoding="ascii"
    )
    control_groups.create()
    mount_points = _hold_mount_points()
    keeper = os.getpid()
    os.unshare(os.CLONE_NEWPID)
    inside = os.fork()
    if inside == 0:
        # From outside, only SIGKILL and SIGSTOP always reach process 1 of a PID namespace.
        die_with_parent(signal.SIGKILL)
        if os.getppid() not in (keeper, 0):
            os._exit(1)
        os.close(lock)
        _inside(settings, listeners)
        os._exit(0)
    for listener in listeners:
        os.close(listener)
    # The id by which the outside knows process 1 of the inside.
    (state_directory() / "region.pid").write_text(str(inside), encoding="ascii")
    while True:
        if stopping:
            with contextlib.suppress(ProcessLookupError):
                os.kill(inside, signal.SIGKILL)
        ended, _ = os.waitpid(inside, os.WNOHANG)
        if ended:
            break
        signal.sigtimedwait([signal.SIGCHLD], 0.2)
    for mount_point in mount_points:
        os.close(mount_point)
    remove_leftovers()
    os.close(lock)
    return 0


def _inside(settings: Settings, listeners: list[int]) -> None:
    """Process 1: set the namespaces up, run the region, reap orphans until it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control_groups.enter("services")
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWNET | os.CLONE_NEWIPC)
    for command in (
        # These mounts stay invisible outside; inside, the kubelets need shared mounts. Until
        # the lab has a /run of its own, mount must not keep its table in the host's.
        ["mount", "--no-mtab", "--make-rprivate", "/"],
        ["mount", "--no-mtab", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", "/proc"],
        *(
            ["mount", "--no-mtab", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(path)]
            for path in (Path("/run"), *BUILT_IN_DIRECTORIES)
        ),
        ["mkdir", str(INSIDE)],
        ["mount", "--bind", str(state_directory()), str(INSIDE)],
        ["mount", "--make-rshared", "/"],
        # Each kubelet mounts a directory of its own here, which no other may see.
        ["mount", "--make-private", str(KUBELET_DIRECTORY)],
        ["ip", "link", "set", "lo", "up"],
    ):
        subprocess.run(command, check=True)
    temporary = state_directory() / "tmp"
    temporary.mkdir()
    region = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "lab.region",
            json.dumps(asdict(settings)),
            *map(str, listeners),
        ],
        pass_fds=listeners,
        # Killed programs leave temporary files here; they are removed with the state directory.
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    for listener in listeners:
        os.close(listener)
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            return
        if ended == region.pid:
            print(f"the region ended with status {status}", flush=True)
            return


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for a signal when the parent of this process ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def process_start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; with its id this names one process."""
    try:
        status = Path("/proc", str(pid), "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]


def keeper_pid() -> int | None:
    """The process id of the running lab's keeper, None when there is none."""
    try:
        words = (state_directory() / "keeper.pid").read_text("ascii").split()
    except OSError:
        return None
    if len(words) != 2 or process_start_time(int(words[0])) != words[1]:
        return None
    return int(words[0])


def enter(node: str) -> list[str]:
    """The beginning of a command line that runs in a node's network namespace.

    `region` is the namespace of the control plane. Raises LabError for an unknown node.
    """
    try:
        inside = (state_directory() / "region.pid").read_text("ascii").strip()
    except OSError:
        raise LabError("No lab is up: start one with `make lab-up`.") from None
    enter_region = ["nsenter", "--target", inside, "--mount", "--net", "--pid"]
    if node == "region":
        return enter_region
    listed = subprocess.run(
        [*enter_region, "ls", "/run/netns"], capture_output=True, text=True, check=False
    ).stdout.split()
    nodes = sorted(name for name in listed if name.endswith(".internal"))
    if node not in nodes:
        raise LabError(f"There is no node {node!r}: the lab has {', '.join(nodes) or 'none yet'}.")
    return [*enter_region, "nsenter", f"--net=/run/netns/{node}"]


def stop(seconds: float = 120.0) -> bool:
    """Take the lab down, or clean up after one that was killed. False when there was none."""
    pid = keeper_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
    lock = -1

    def has_ended() -> bool:
        nonlocal lock
        with contextlib.suppress(LabError):
            lock = acquire_lock()
        return lock != -1

    if not waiting.until(has_ended, seconds=seconds):
        raise LabError(
            f"The lab did not end within {seconds:.0f} s: end process {pid} with "
            f"`kill -9 {pid}`, then run `make lab-down` again."
        )
    existed = pid is not None or state_directory().exists() or control_groups.exist()
    remove_leftovers()
    os.close(lock)
    return existed


def main() -> int:
    """Run the keeper. Arguments: settings, lock, two listeners, the process it is tied to or 0."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    settings = Settings(**json.loads(sys.argv[1]))
    lock, aws, kubernetes_api, tied_to = map(int, sys.argv[2:6])
    return keep(settings, lock, [aws, kubernetes_api], tied_to)


if __name__ == "__main__":
    sys.exit(main())
