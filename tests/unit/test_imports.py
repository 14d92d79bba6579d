"""The rooms of the domain: their imports point one way, and none knows the lab."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import TopologicalSorter

import pytest

from tests.templates.cloudformation import ROOT


def imported(path, package=()):
    """The modules that a file of a package imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*parents, *([node.module] if node.module else [])))
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.fixture(scope="module")
def imports():
    """The modules that each file of the functions and of the command imports."""
    packages = {ROOT / "functions": (), ROOT / "cli": ("rackrate_cli",)}
    return {
        path: [*imported(path, (*package, *path.relative_to(folder).parts[:-1]))]
        for folder, package in packages.items()
        for path in folder.rglob("*.py")
    }


@pytest.mark.parametrize(
    ("folder", "package"), [("functions/rackrate", "rackrate"), ("cli", "rackrate_cli")]
)
def test_no_two_rooms_import_each_other(imports, folder, package):
    rooms = defaultdict(set)
    for path, names in imports.items():
        if path.is_relative_to(ROOT / folder):
            own = path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
            rooms[own] |= {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
    assert len(rooms) > 10
    TopologicalSorter({room: others - {room} for room, others in rooms.items()}).prepare()


@pytest.mark.parametrize(
    ("folder", "foreign"), [("functions", "lab"), ("cli", "lab"), ("cli", "rackrate")]
)
def test_what_users_run_imports_neither_the_lab_nor_the_command_the_domain(
    imports, folder, foreign
):
    for path, names in imports.items():
        if path.is_relative_to(ROOT / folder):
            assert foreign not in {name.split(".")[0] for name in names}, path
