"""scripts/setup with only what Linux and macOS share, and the locks that it installs."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("scripts/setup", "scripts/uv")
#: What macOS lacks: its bash is 3.2, and its programs are BSD's.
LACKING = {
    "associative arrays": r"\b(declare|local|readonly|typeset) -[a-z]*A",
    "mapfile": r"\b(mapfile|readarray|coproc)\b",
    "changed case": r"\$\{\w+(\[[^]]*\])?[,^]",
    "transformations": r"\$\{\w+@\w\}",
    "pipes of both outputs": r"\|&|&>>",
    "tests for a variable": r"\[\[? -v\b",
    "names of variables": r"\b(declare|local) -n\b",
    "negative indexes": r"\[-\d+\]\}",
    "waiting for one of several": r"\bwait -n\b",
    "flock": r"^\s*(if ! )?flock\b",
    "sums": r"\b(sha256sum|sha1sum|md5sum)\b",
    "GNU's options": r"\b(mv -T|readlink -f|sed -i|cp -a|date -d|stat -c)\b",
}
UV = """#!/bin/bash
# Stands for scripts/uv: it makes the environment's files, and writes down what it was asked.
echo "$*" >>calls
case $1 in
    venv) mkdir -p "${@: -1}/bin" && ln -sf "$(command -v python3)" "${@: -1}/bin/python" ;;
    pip) : >.venv-aws/bin/rackrate && chmod +x .venv-aws/bin/rackrate ;;
esac
"""


def lacking(script):
    """What of a script macOS lacks."""
    code = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#"))
    return [name for name, pattern in LACKING.items() if re.search(pattern, code, re.MULTILINE)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_users_run_keeps_to_what_macos_has(name):
    assert lacking((ROOT / name).read_text()) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("readonly -A locks=([.venv]=dev)", "associative arrays"),
        ("mapfile -t lines <file", "mapfile"),
        ("echo ${name,,}", "changed case"),
        ("if ! flock --nonblock 9; then", "flock"),
        ("cat file | sha256sum", "sums"),
        ('mv -T "$partial" "$home"', "GNU's options"),
    ],
)
def test_what_macos_lacks_is_found(line, name):
    assert lacking(f"#!/bin/bash\n{line}\n") == [name]


@pytest.fixture
def clone(tmp_path):
    """A clone whose uv makes no environment, and a PATH with what POSIX has and python3."""
    for name in ("scripts/setup", ".python-version", "pyproject.toml", "requirements/aws.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".python-version").write_text("{}.{}\n".format(*sys.version_info))
    (tmp_path / "scripts/uv").write_text(UV)
    (tmp_path / "scripts/uv").chmod(0o755)
    (tmp_path / "path").mkdir()
    for program in ("bash", "cat", "chmod", "cmp", "ln", "mkdir", "rm"):
        (tmp_path / "path" / program).symlink_to(shutil.which(program))
    (tmp_path / "path" / "python3").symlink_to(sys.executable)
    return tmp_path


def start(clone, *arguments):
    return subprocess.Popen(
        ["bash", "--posix", "scripts/setup", *arguments],
        cwd=clone,
        env={"PATH": str(clone / "path")},
        stderr=subprocess.PIPE,
        text=True,
    )


def installations(clone):
    return (clone / "calls").read_text().count("pip sync")


def test_a_second_setup_installs_nothing(clone):
    for _ in range(2):
        setup = start(clone, ".venv-aws")
        _, output = setup.communicate()
        assert setup.returncode == 0, output
    assert installations(clone) == 1


def test_a_setup_waits_for_another_one(clone):
    with (clone / "scripts/setup").open() as script:
        fcntl.flock(script, fcntl.LOCK_EX)
        setup = start(clone, ".venv-aws")
        assert "waiting for another setup" in setup.stderr.readline()
        assert installations(clone) == 0
    _, output = setup.communicate()
    assert setup.returncode == 0, output
    assert installations(clone) == 1


@pytest.mark.parametrize("name", ["requirements/aws.txt", "pyproject.toml", ".python-version"])
def test_a_changed_lock_is_installed(clone, name):
    assert start(clone, ".venv-aws").wait() == 0
    with (clone / name).open("a") as file:
        file.write("\n")
    assert start(clone, ".venv-aws").wait() == 0
    assert installations(clone) == 2


def test_an_unknown_environment_is_named(clone):
    setup = start(clone, ".venv-gcp")
    _, output = setup.communicate()
    assert setup.returncode == 1
    assert "there is no environment .venv-gcp" in output


# -- what is installed


def locked(name):
    text = (ROOT / name).read_text()
    return set(re.findall(r"^([\w.-]+==[\w.]+)", text, re.MULTILINE)), text


def test_users_get_the_developers_versions_and_nothing_of_the_lab_or_the_linters():
    mine, text = locked("requirements/aws.txt")
    developers, _ = locked("requirements/dev.txt")
    assert {each for each in mine - developers if not each.startswith("pywin32==")} == set()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    names = {each.partition("=")[0] for each in mine}
    # The AWS CLI in the index is version 1. On PATH it would hide version 2, which has `aws login`.
    assert "awscli" not in names and {"aws-sam-cli", "awscrt"} <= names
    for name in ("moto", "mypy", "pytest", "playwright", "kubernetes", "matplotlib"):
        assert any(name in str(each) for group in groups.values() for each in group)
        assert f"\n{name}==" not in text


def test_the_environment_has_the_pip_that_sam_build_runs():
    """`sam build` takes the first python3.13 on PATH, and fails without pip in it."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "--version"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\npip==" in locked("requirements/aws.txt")[1]


LOCKS = [
    *ROOT.glob("requirements/*.txt"),
    *ROOT.glob("packages/*.txt"),
]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_lock_has_hashes_and_no_index(path):
    text = path.read_text()
    pinned = re.findall(r"^\S.*\\$", text, re.MULTILINE)
    assert pinned
    assert len(pinned) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    assert "://" not in text
