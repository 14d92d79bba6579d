"""The command's wheel: its content, and that it starts with nothing but its dependencies.

No package index is asked: the dependencies are links to those of this environment. `make wheel`
installs from the index.
"""

from __future__ import annotations

import email
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.rest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("cli", "functions/rackrate_contract", "functions/rackrate_text")
RUNNING = "{}.{}".format(*sys.version_info)
VERSIONS = ("3.12", "3.13", "3.14")
#: An address of this machine that refuses connections.
CLOSED = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy because setuptools writes beside its sources."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", source / "dist", source], check=True
    )
    [built] = (source / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name))


def required(requirements):
    """The names of distributions that requirements bring, with what those require."""
    names, todo = set(), [Requirement(each) for each in requirements]
    while todo:
        each = todo.pop()
        if each.name in names or (each.marker and not each.marker.evaluate({"extra": ""})):
            continue
        names.add(each.name)
        todo += map(Requirement, importlib.metadata.requires(each.name) or [])
    return names


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory):
    """A directory with the dependencies of the command, and nothing else."""
    folder = tmp_path_factory.mktemp("dependencies")
    for name in required(PROJECT["project"]["dependencies"]):
        files = importlib.metadata.files(name)
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(files[0].locate().parents[len(files[0].parts) - 1] / top)
    return folder


def interpreter(version):
    """A Python of a version on this machine that starts; None if there is none."""
    if version == RUNNING:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [*pyenv.glob(f"versions/{version}.*/bin/python"), f"python{version}"]
    for program in filter(None, map(shutil.which, map(str, candidates))):
        if subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            return program
    return None


@pytest.fixture(scope="module", params=VERSIONS)
def rackrate(request, wheel, dependencies, tmp_path_factory):
    """Return a function that runs the installed command with a supported Python."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"this machine has no Python {request.param}")
    home = tmp_path_factory.mktemp("home")
    venv = home / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--no-compile", wheel], check=True)

    def run(*arguments, program="rackrate"):
        return subprocess.run(
            [venv / "bin" / program, *arguments],
            env={
                "HOME": str(home),
                "PYTHONPATH": str(dependencies),
                "PYTHONDONTWRITEBYTECODE": "1",
                "AWS_ENDPOINT_URL": CLOSED,
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_MAX_ATTEMPTS": "1",
            },
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_wheel_has_the_command_and_no_test_lab_or_function(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entry_points] = (name for name in names if name.endswith("/entry_points.txt"))
        assert "rackrate = rackrate_cli.__main__:main" in archive.read(entry_points).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "rackrate_cli",
        "rackrate_contract",
        "rackrate_text",
    }
    tracked = [file for name in PACKAGES for file in (ROOT / name).rglob("*.py")]
    assert len([name for name in names if name.endswith(".py")]) == len(tracked)
    assert any(name.endswith("/LICENSE") for name in names)


def test_the_metadata_say_what_an_installer_needs(metadata):
    needed = [Requirement(each) for each in metadata.get_all("Requires-Dist")]
    always = {each.name for each in needed if each.marker is None}
    assert always == {"boto3", "mpmath", "pydantic", "rich", "typer"}
    assert {each.name for each in needed} - always == {"jsonschema"}
    # Without it boto3 cannot read the credentials of `aws login`.
    assert [each.extras for each in needed if each.name == "boto3"] == [{"crt"}]
    assert all(">=" in str(each.specifier) for each in needed)
    assert all(version in SpecifierSet(metadata["Requires-Python"]) for version in VERSIONS)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# rackrate")


def test_users_of_the_wheel_and_of_the_clone_get_the_same_bounds():
    project = PROJECT["project"]
    wheels = [*project["dependencies"], *project["optional-dependencies"]["doctor"]]
    assert sorted(wheels) == sorted(PROJECT["dependency-groups"]["cli"])


def test_the_command_starts_with_its_dependencies_alone(rackrate):
    version = rackrate("--version")
    assert version.returncode == 0, version.stderr
    assert version.stdout.strip() == f"rackrate {PROJECT['project']['version']}"
    usage = rackrate("--help")
    assert usage.returncode == 0, usage.stderr
    assert "doctor" in usage.stdout


def test_every_module_is_imported_with_the_dependencies_alone(rackrate, request):
    packages = "rackrate_cli, rackrate_text"
    if request.node.callspec.params["rackrate"] == RUNNING:  # for which pydantic is compiled here
        packages += ", rackrate_contract"
    program = (
        f"import importlib, pkgutil, {packages}\n"
        f"for package in ({packages}):\n"
        "    for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        each.name.endswith('__main__') or importlib.import_module(each.name)\n"
    )
    done = rackrate("-c", program, program="python")
    assert done.returncode == 0, done.stderr


def test_a_refused_command_ends_with_a_sentence(rackrate, request):
    if request.node.callspec.params["rackrate"] != RUNNING:
        pytest.skip(f"typer reads arguments with pydantic, compiled here for Python {RUNNING}")
    done = rackrate("list")
    assert done.returncode == 2, done.stderr
    assert "credentials" in done.stderr
    assert "Traceback" not in done.stderr
