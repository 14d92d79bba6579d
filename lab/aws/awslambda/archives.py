"""Keeps functions' archives on disk, each content unpacked once, and the runtime's packages."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import threading
import zipfile
from importlib.metadata import files
from pathlib import Path

from moto.awslambda.exceptions import InvalidParameterValueException
from moto.awslambda.models import LambdaFunction, _s3_content
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


class Archives:
    """Keeps archives below a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._unzip_locks: dict[str, threading.Lock] = {}
        self._known: dict[str, tuple[int, str, str]] = {}
        (directory / "code").mkdir(parents=True, exist_ok=True)
        self.runtime_client = directory / "lambda-runtime-client"
        self._link_runtime_client()

    def of_object(self, key: FakeKey) -> tuple[bytes, int, str, str]:
        """What moto's Lambda wants of an archive in S3: content, size and two forms of its digest.

        The functions of a stack share two large archives, so each content is read once. The
        content of one that is kept already is empty.
        """
        known = self._known.get(key.etag)
        if known is not None and (self._directory / "code" / f"{known[2]}.zip").exists():
            return (b"", *known)
        content, size, sha_256, digest = _s3_content(key)
        self._known[key.etag] = (size, sha_256, digest)
        return content, size, sha_256, digest

    def keep(self, function: LambdaFunction) -> None:
        """Move a function's archive from memory to disk, once per content, and unpack it.

        Raises InvalidParameterValueException when the archive is larger than Lambda accepts.
        """
        content = bytes(function.code_bytes or b"")
        if not content:
            return
        _check_size(content)
        digest = hashlib.sha256(content).hexdigest()
        function.code_digest = digest
        function.code_bytes = b""
        archive = self._directory / "code" / f"{digest}.zip"
        if not archive.exists():
            partial = archive.with_suffix(f".{os.urandom(4).hex()}")
            partial.write_bytes(content)
            partial.rename(archive)
        threading.Thread(
            target=self.unzip, args=(digest,), name="lambda-unzip", daemon=True
        ).start()

    def unzip(self, digest: str) -> Path:
        """The directory of an archive's content; unpacks the archive when it is missing."""
        with self._lock:
            lock = self._unzip_locks.setdefault(digest, threading.Lock())
        target = self._directory / "code" / digest
        with lock:
            if not target.exists():
                partial = target.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                with zipfile.ZipFile(target.with_suffix(".zip")) as archive:
                    for entry in archive.infolist():
                        path = Path(archive.extract(entry, partial))
                        mode = entry.external_attr >> 16 & 0o777
                        if mode and not entry.is_dir():
                            path.chmod(mode | 0o400)
                partial.rename(target)
        return target

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


def _check_size(archive: bytes) -> None:
    """Refuse an archive that is too large unpacked, as Lambda does."""
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        size = sum(entry.file_size for entry in content.infolist())
    if size >= UNZIPPED_BYTES:
        raise InvalidParameterValueException(
            f"Unzipped size must be smaller than {UNZIPPED_BYTES} bytes"
        )
