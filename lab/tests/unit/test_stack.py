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
    sources: list[str] = []

    def sam(arguments: Sequence[str], variables: object) -> None:
        assert arguments[0] == "build"
        directory = Path(arguments[arguments.index("--build-dir") + 1])
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        sources.append((tmp_path / "packages" / "report" / "code" / "index.py").read_text())

    monkeypatch.setattr(stack, "REPOSITORY", tmp_path)
    directories = {root: tmp_path / ".aws-sam" / root for root in stack.BUILD_DIRECTORIES}
    monkeypatch.setattr(stack, "BUILD_DIRECTORIES", directories)
    monkeypatch.setattr(stack, "_sam", sam)
    (tmp_path / "template.yaml").write_text("a template")
    code, package = tmp_path / "shared" / "code", tmp_path / "packages" / "report"
    for directory in (code, package):
        directory.mkdir(parents=True)
    (code / "index.py").write_text("1")
    (package / "code").symlink_to(code)
    return sources


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
    shutil.rmtree(stack.BUILD_DIRECTORIES[stack.OWN_CLUSTER])
    stack.build()
    assert len(builds) == 4


def test_each_root_template_has_a_build_of_its_own(builds: list[str]) -> None:
    for root in (stack.OWN_CLUSTER, stack.EXISTING_CLUSTER) * 2:
        stack.build(root)
    assert len(builds) == 2


def test_a_file_that_python_compiled_is_no_source(builds: list[str], tmp_path: Path) -> None:
    stack.build()
    (tmp_path / "shared" / "code" / "index.cpython-313.pyc").write_bytes(b"compiled")
    stack.build()
    assert builds == ["1"]
