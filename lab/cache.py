"""The lab's cache of artifacts that take long to build.

Everything is in the user's cache directory. The name of an artifact's directory contains a digest
of the build's inputs. A build writes elsewhere and renames its directory once at the end, and
nothing changes it afterwards. So an interrupted build leaves nothing that a later build would use.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: Where the archives of functions are unpacked (lab/aws/awslambda/archives.py).
FUNCTIONS = "functions"


def cache_directory() -> Path:
    """The cache of this user: `$XDG_CACHE_HOME/rackrate`, by default `~/.cache/rackrate`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rackrate"


def key_of(*parts: str | bytes) -> str:
    """A short digest of the inputs of a build."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of one kind of artifact, so that two processes do not build it twice.

    It is beside the artifacts themselves, which a cache may share with another by a link.
    """
    place = (cache_directory() / name).resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def artifact(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory `name/key`, made by `build(directory)` when it does not exist yet.

    A successful build removes the older keys of the same name.
    """
    final = cache_directory() / name / key
    if final.is_dir():
        return final
    with locked(name):
        if final.is_dir():
            return final
        final.parent.mkdir(parents=True, exist_ok=True)
        for leftover in final.parent.glob(".making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
        try:
            build(making)
            making.chmod(0o755)
            making.rename(final)
        finally:
            shutil.rmtree(making, ignore_errors=True)
        for older in final.parent.iterdir():
            if older != final and not older.name.startswith("."):
                shutil.rmtree(older, ignore_errors=True)
    return final
