"""The lab's builds of the stack."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import stack


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code of each build of a repository with one function, which a package shares by a link.

    The SAM CLI is replaced by what it does here: it empties its directory and copies the code.
    """
    made: list[str] = []

    def sam(arguments: Sequence[str], variables: object) -> None:
        assert list(arguments) == ["build"]
        shutil.rmtree(stack.BUILD_DIRECTORY, ignore_errors=True)
        stack.BUILD_DIRECTORY.mkdir()
        made.append((tmp_path / "packages" / "report" / "code" / "index.py").read_text())

    monkeypatch.setattr(stack, "REPOSITORY", tmp_path)
    monkeypatch.setattr(stack, "BUILD_DIRECTORY", tmp_path / ".aws-sam" / "build")
    monkeypatch.setattr(stack, "_sam", sam)
    (tmp_path / "template.yaml").write_text("a template")
    code, package = tmp_path / "shared" / "code", tmp_path / "packages" / "report"
    for directory in (code, package):
        directory.mkdir(parents=True)
    (code / "index.py").write_text("1")
    (package / "code").symlink_to(code)
    return made


def test_the_stack_is_built_again_exactly_when_a_source_or_the_build_has_changed(
    builds: list[str], tmp_path: Path
) -> None:
    code = tmp_path / "shared" / "code" / "index.py"
    stack.build()
    stack.build()
    assert builds == ["1"]
    code.write_text("2")
    stack.build()
    stack.build()
    assert builds == ["1", "2"]
    code.chmod(0o755)
    stack.build()
    assert builds == ["1", "2", "2"]
    # Another build, such as a user's, of sources that have changed back since.
    shutil.rmtree(stack.BUILD_DIRECTORY)
    stack.build()
    assert len(builds) == 4


def test_a_file_that_python_compiled_is_no_source(builds: list[str], tmp_path: Path) -> None:
    stack.build()
    (tmp_path / "shared" / "code" / "index.cpython-313.pyc").write_bytes(b"compiled")
    stack.build()
    assert builds == ["1"]
