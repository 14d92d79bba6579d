"""Keeps the archives of functions and layers on disk, each unpacked once, and the runtime."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import threading
import zipfile
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path

from moto.awslambda.exceptions import InvalidParameterValueException
from moto.awslambda.models import LambdaFunction, LayerVersion, _s3_content
from moto.s3.models import FakeKey

#: AWS Lambda developer guide, "Lambda quotas": 250 MB unzipped.
UNZIPPED_BYTES = 250 * 2**20
# The runtime's own packages, with the SDK that every Python runtime of Lambda has. A function
# imports from its archive first, and everything else can only come from there.
_RUNTIME_PACKAGES = (
    "awslambdaric",
    "snapshot-restore-py",
    "simplejson",
    "boto3",
    "botocore",
    "jmespath",
    "python-dateutil",
    "s3transfer",
    "six",
    "urllib3",
)


# A stack has four. Unpacked, they are as large as 250 MB.
_MOST_UNPACKED = 8


class Archives:
    """Keeps archives below a directory.

    `unpacked` is where they are unpacked. Labs can share it, and with it what Python compiles there
    when a function is first imported. By default it is below the directory.
    """

    def __init__(self, directory: Path, unpacked: Path | None = None) -> None:
        self._directory = directory
        self._unpacked = unpacked or directory / "unpacked"
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()
        self._unzip_locks: dict[str, threading.Lock] = {}
        self._cache: dict[str, tuple[int, str, str]] = {}
        # The digests of layers by the ARNs of their versions. As on AWS, functions keep a version
        # that is deleted.
        self._layers: dict[str, str] = {}
        (directory / "code").mkdir(parents=True, exist_ok=True)
        self.runtime_client = directory / "lambda-runtime-client"
        self._link_runtime_client()

    def of_object(self, key: FakeKey) -> tuple[bytes, int, str, str]:
        """What moto's Lambda wants of an archive in S3: content, size and two forms of its digest.

        The functions of a stack share two large archives, so each content is read once. The
        content of one that is kept already is empty.
        """
        cached = self._cache.get(key.etag)
        if cached is not None and (self._directory / "code" / f"{cached[2]}.zip").exists():
            return (b"", *cached)
        content, size, sha_256, digest = _s3_content(key)
        self._cache[key.etag] = (size, sha_256, digest)
        return content, size, sha_256, digest

    def keep(self, function: LambdaFunction) -> None:
        """Move a function's archive from memory to disk, once per content, and unpack it.

        Raises InvalidParameterValueException when the archive is larger than Lambda accepts.
        """
        if content := bytes(function.code_bytes or b""):
            function.code_digest = self._keep(content)
            function.code_bytes = b""

    def keep_layer(self, version: LayerVersion) -> None:
        """The same for a version of a layer."""
        if version.code_bytes:
            version.code_digest = self._keep(bytes(version.code_bytes))
            version.code_bytes = b""
        self._layers[version.arn] = version.code_digest

    def layer(self, arn: str) -> Path:
        """The directory that a version of a layer is in a function's /opt."""
        return self.unzip(self._layers[arn])

    def _keep(self, content: bytes) -> str:
        _check_size(content)
        digest = hashlib.sha256(content).hexdigest()
        archive = self._directory / "code" / f"{digest}.zip"
        if not archive.exists():
            partial = archive.with_suffix(f".{os.urandom(4).hex()}")
            partial.write_bytes(content)
            partial.rename(archive)
        threading.Thread(
            target=self.unzip, args=(digest,), name="lambda-unzip", daemon=True
        ).start()
        return digest

    def unzip(self, digest: str) -> Path:
        """The directory of an archive's content; unpacks the archive when it is missing."""
        with self._lock:
            lock = self._unzip_locks.setdefault(digest, threading.Lock())
        target = self._unpacked / digest
        with lock:
            if digest not in self._held:
                self._unpacked.mkdir(parents=True, exist_ok=True)
                with _locked(target):
                    if not target.exists():
                        self._unzip(self._directory / "code" / f"{digest}.zip", target)
                    os.utime(target)
                    # Held as long as this process, so that no other lab removes it.
                    self._held[digest] = os.open(target, os.O_RDONLY)
                    fcntl.flock(self._held[digest], fcntl.LOCK_SH)
                self._remove_unused()
        return target

    @staticmethod
    def _unzip(source: Path, target: Path) -> None:
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                path = Path(archive.extract(entry, partial))
                mode = entry.external_attr >> 16 & 0o777
                if mode and not entry.is_dir():
                    path.chmod(mode | 0o400)
        partial.rename(target)

    def _remove_unused(self) -> None:
        """Remove the content that was not used for longest and that no lab uses."""
        directories = [
            path for path in self._unpacked.iterdir() if path.is_dir() and not path.suffix
        ]
        for old in sorted(directories, key=lambda path: path.stat().st_mtime)[:-_MOST_UNPACKED]:
            # Whoever uses or removes it now holds it.
            with contextlib.suppress(BlockingIOError, FileNotFoundError), _locked(old, wait=False):
                held = os.open(old, os.O_RDONLY)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    partial = old.with_suffix(".partial")
                    old.rename(partial)
                    shutil.rmtree(partial, ignore_errors=True)
                finally:
                    os.close(held)

    def _link_runtime_client(self) -> None:
        """Make a directory that holds the runtime client, its dependencies and nothing else."""
        shutil.rmtree(self.runtime_client, ignore_errors=True)
        self.runtime_client.mkdir(parents=True)
        for package in _RUNTIME_PACKAGES:
            for file in files(package) or []:
                top = file.parts[0]
                link = self.runtime_client / top
                if top.endswith(".dist-info") or top in ("..", "__pycache__") or link.exists():
                    continue
                source = Path(str(file.locate())).resolve()
                for _ in file.parts[1:]:
                    source = source.parent
                link.symlink_to(source)


@contextlib.contextmanager
def _locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a directory that may be made or removed. Raises BlockingIOError."""
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def _check_size(archive: bytes) -> None:
    """Refuse an archive that is too large unpacked, as Lambda does."""
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        size = sum(entry.file_size for entry in content.infolist())
    if size >= UNZIPPED_BYTES:
        raise InvalidParameterValueException(
            f"Unzipped size must be smaller than {UNZIPPED_BYTES} bytes"
        )
