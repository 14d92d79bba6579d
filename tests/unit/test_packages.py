"""The packages of functions: each has what its functions import, and leaves room."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from importlib.util import cache_from_source
from modulefinder import ModuleFinder
from pathlib import Path

import pytest

from scripts import packages
from tests import ROOT
from tests.templates.cloudformation import TEMPLATES, load


def handlers():
    """The modules of all handlers, by the package that the templates take them from."""
    by_package = {ROOT / name: set() for name in packages.LARGEST_SHARE}
    for path in TEMPLATES:
        template = load(path)
        shared = template.get("Globals", {}).get("Function", {})
        for resource in template["Resources"].values():
            if resource["Type"] != "AWS::Serverless::Function":
                continue
            properties = {**shared, **resource["Properties"]}
            package = Path(os.path.normpath(path.parent / properties["CodeUri"]))
            if package != ROOT / "image":  # imports nothing but Lambda's own
                by_package[package].add(properties["Handler"].rpartition(".")[0])
    return by_package


HANDLERS = handlers()
contents = functools.cache(packages.contents)
each_package = pytest.mark.parametrize("package", HANDLERS, ids=lambda path: path.name)


def unpack(package, folder):
    """Unpack a package, as links to its files."""
    for name, source in contents(package).items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)
        # What Python has compiled already, which takes most of an import's time.
        compiled = Path(cache_from_source(source)) if link.suffix == ".py" else source
        if compiled != source and compiled.exists():
            (link.parent / "__pycache__").mkdir(exist_ok=True)
            (link.parent / "__pycache__" / compiled.name).symlink_to(compiled)


def own_modules(package):
    """The names of the modules at the top of a package."""
    tops = {Path(name).parts[0] for name in contents(package)}
    return {top.partition(".")[0] for top in tops}


def missing(package, modules):
    """What modules import, and what that imports, also within functions, that a package lacks."""
    finder = ModuleFinder(path=[str(package)])
    for module in sorted(modules):
        finder.import_hook(module)
    imported = {name.partition(".")[0] for name in finder.badmodules}
    own = {path.stem for path in package.iterdir()}
    return imported - own - own_modules(package) - sys.stdlib_module_names


@each_package
def test_every_handler_is_imported_with_what_its_package_has(package, tmp_path):
    assert HANDLERS[package]
    unpack(package, tmp_path)
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        # Without the packages of this environment.
        [sys.executable, "-S", "-s", "-B", "-c", program, *sorted(HANDLERS[package])],
        env={"PYTHONPATH": str(tmp_path), "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@each_package
def test_no_handler_imports_later_what_its_package_lacks(package):
    assert missing(package, HANDLERS[package]) == set()


def test_an_import_within_a_function_is_found():
    lacking = missing(ROOT / "functions", ["handlers.compare"])
    assert lacking == {"jinja2", "markupsafe", "matplotlib"}


def test_the_packages_leave_room_for_the_next_dependency(capsys):
    assert packages.main() == 0
    assert capsys.readouterr().out.count("MB unpacked") == len(HANDLERS)


def test_a_package_that_leaves_too_little_room_is_named(monkeypatch, capsys):
    monkeypatch.setattr(packages, "LARGEST_SHARE", {"functions": 0.3})
    assert packages.main() == 1
    assert "functions takes more than 30%" in capsys.readouterr().err
