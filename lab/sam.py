"""The SAM CLI, changed to zip each directory once, and to upload it once for all templates.

The SAM CLI remembers its uploads for one template only. Our nested templates share two artifacts,
so packaging takes three times as long without this change. Zipping it takes most of the rest, and
each lab packages the same build. It reads each template several times, here with libyaml.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from samcli.cli.main import cli
from samcli.lib.package import utils

# Beside the build, for all processes that package.
ARCHIVES = Path(__file__).resolve().parents[1] / ".aws-sam" / "archives"
# Three of this build and of the one before.
_MOST_ARCHIVES = 6


class QuickZip(zipfile.ZipFile):
    """Compresses little: an archive of the lab goes from one place of the machine to another."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **({"compresslevel": 1} | options))


_sam_zip_folder = utils.zip_folder


@contextlib.contextmanager
def kept_archive(
    folder_path: str, zip_method: Callable[[str, str], str]
) -> Iterator[tuple[str, str]]:
    """The archive of a directory and the digest of its content, as `utils.zip_folder` has them."""
    if zip_method is not utils.make_zip_with_lambda_permissions:
        with _sam_zip_folder(folder_path, zip_method) as archive:
            yield archive
        return
    digest: str = utils.dir_checksum(folder_path, followlinks=True)
    # The archive holds the files' modes too, which are not in SAM's digest.
    files = sorted(Path(folder_path).rglob("*"))
    modes = "".join(f"{path} {path.stat().st_mode}\n" for path in files)
    cached = ARCHIVES / f"{digest}-{hashlib.sha256(modes.encode()).hexdigest()[:16]}.zip"
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with ARCHIVES.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if cached.exists():
            cached.touch()
        else:
            Path(zip_method(str(ARCHIVES / "partial"), folder_path)).rename(cached)
        old = sorted(ARCHIVES.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_ARCHIVES]
        for path in old:
            path.unlink()
        yield str(cached), digest


yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[assignment,misc]
utils.zip_folder = kept_archive
zipfile.ZipFile = QuickZip  # type: ignore[misc]
utils.zip_and_upload = functools.cache(utils.zip_and_upload)

if __name__ == "__main__":
    cli(prog_name="sam")
