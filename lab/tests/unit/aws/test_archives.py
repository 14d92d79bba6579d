"""Labs share the unpacked archives of functions."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from moto.awslambda.models import LambdaFunction

from lab.aws.awslambda.archives import Archives


def kept(archives: Archives, text: str) -> str:
    """The digest of an archive with one file, which a function of a lab brings."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("index.py"), text)
    function = LambdaFunction.__new__(LambdaFunction)
    function.code_bytes = content.getvalue()
    archives.keep(function)
    return hashlib.sha256(content.getvalue()).hexdigest()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def test_a_second_lab_uses_what_the_first_has_unpacked_and_compiled(
    tmp_path: Path, shared: Path
) -> None:
    one, other = Archives(tmp_path / "one", shared), Archives(tmp_path / "other", shared)
    digest = kept(one, "text")
    (one.unzip(digest) / "index.pyc").write_bytes(b"compiled")
    assert kept(other, "text") == digest
    assert (other.unzip(digest) / "index.py").read_text() == "text"
    assert (other.unzip(digest) / "index.pyc").exists()


def test_what_was_not_unpacked_to_its_end_is_unpacked_again(tmp_path: Path, shared: Path) -> None:
    archives = Archives(tmp_path / "one", shared)
    digest = kept(archives, "text")
    archives.unzip(digest)
    shutil.rmtree(shared / digest)
    (shared / f"{digest}.partial").mkdir()
    (shared / f"{digest}.partial" / "other.py").touch()
    again = Archives(tmp_path / "one", shared)
    assert [path.name for path in again.unzip(digest).iterdir()] == ["index.py"]


def test_the_oldest_content_goes_but_not_what_a_lab_uses(tmp_path: Path, shared: Path) -> None:
    shared.mkdir()
    archives = Archives(tmp_path / "one", shared)
    used = archives.unzip(kept(archives, "used"))
    os.utime(used, (1, 1))
    unused = [shared / f"{number}" for number in range(2, 11)]
    for path in unused:
        path.mkdir()
        os.utime(path, (int(path.name), int(path.name)))
    archives.unzip(kept(archives, "newest"))
    assert used.is_dir()
    assert [path.name for path in unused if path.exists()] == ["4", "5", "6", "7", "8", "9", "10"]
