"""containerd: its settings, its command `ctr`, and the images that all nodes start with."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from lab.nodes.process import Process, wait_until
from lab.nodes.programs import Programs

START_SECONDS = 30.0
#: Plugins that need what a machine may lack, or that nothing here uses.
_DISABLED = (
    "io.containerd.internal.v1.opt",
    *(f"io.containerd.snapshotter.v1.{name}" for name in ("btrfs", "zfs", "aufs", "devmapper")),
)
_CRI = "io.containerd.grpc.v1.cri"
#: containerd writes to its databases, but never to what it has imported.
_DATABASE = ".db"


def configuration(root: Path, state: Path, socket: Path, disabled: Sequence[str] = ()) -> str:
    """The settings of a containerd, without those of its plugins."""
    plugins = ", ".join(f'"{name}"' for name in (*_DISABLED, *disabled))
    return f"""\
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = [{plugins}]
[grpc]
  address = "{socket}"
"""


def program(programs: Programs, settings: Path) -> list[str]:
    """The command line of a containerd with its settings in a file."""
    return [programs.debian_program("usr/bin/containerd"), "--config", str(settings)]


def ctr(programs: Programs, socket: Path, *arguments: str) -> str:
    """Run a command of `ctr` on a containerd, for what Kubernetes has there.

    Raises:
        OSError: it failed, as before containerd answers.
    """
    done = subprocess.run(
        [
            programs.debian_program("usr/bin/ctr"),
            "--address",
            str(socket),
            "--namespace",
            "k8s.io",
            *arguments,
        ],
        env=os.environ | dict(programs.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(f"ctr {arguments[0]} failed on {socket}: {done.stderr.strip()}")
    return done.stdout


def answers(programs: Programs, socket: Path) -> bool:
    """Whether a containerd takes requests."""
    if not socket.exists():
        return False
    try:
        ctr(programs, socket, "version")
    except OSError:
        return False
    return True


def wait_until_it_answers(programs: Programs, socket: Path, process: Process) -> None:
    """Wait for a containerd that starts. Raises TimeoutError."""
    wait_until(
        lambda: answers(programs, socket),
        seconds=START_SECONDS,
        describe=lambda: f"containerd does not answer: {process.last_lines()}",
        processes=[process],
    )


class Images:
    """The images of an archive, imported once for all nodes.

    An import takes two seconds of a processor, and the files of each would take 170 MB of disk.
    """

    def __init__(self, programs: Programs, archive: Path, directory: Path) -> None:
        """`directory` has to be on one mount with the nodes' own."""
        self._programs, self._archive, self._directory = programs, archive, directory
        self._lock = threading.Lock()
        self._root = directory / "root"

    def put_into(self, root: Path) -> None:
        """Give a containerd that has not started yet the images, in its root directory.

        Its files are links to the same ones, but for the databases.

        Raises:
            OSError: the images cannot be imported or linked.
            TimeoutError: the containerd that imports them does not answer.
        """
        with self._lock:
            if not self._root.exists():
                self._import()
        shutil.copytree(self._root, root, symlinks=True, copy_function=_share)

    def _import(self) -> None:
        making = self._directory / "making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        socket, settings = making / "containerd.sock", making / "containerd.toml"
        settings.write_text(
            configuration(making / "root", making / "state", socket, [_CRI]), encoding="utf-8"
        )
        containerd = Process(
            "containerd of the images",
            program(self._programs, settings),
            self._directory / "containerd.log",
            environment=self._programs.environment,
        )
        try:
            wait_until_it_answers(self._programs, socket, containerd)
            ctr(self._programs, socket, "images", "import", str(self._archive))
        finally:
            containerd.stop()
        (making / "root").rename(self._root)
        shutil.rmtree(making, ignore_errors=True)


def _share(source: str, target: str) -> None:
    """Give another containerd a file: its own copy of a database, a link to all else."""
    if source.endswith(_DATABASE):
        shutil.copy2(source, target)
    else:
        os.link(source, target)
