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


@pytest.mark.parametrize(
    ("folder", "package"), [("functions/rackrate", "rackrate"), ("cli", "rackrate_cli")]
)
def test_no_two_rooms_import_each_other(folder, package):
    rooms = defaultdict(set)
    for path in (ROOT / folder).rglob("*.py"):
        parts = path.relative_to(ROOT / folder).parts
        own = parts[0].removesuffix(".py")
        for name in imported(path, (package, *parts[:-1])):
            if name.startswith(f"{package}."):
                rooms[own].add(name.split(".")[1])
    assert len(rooms) > 10
    TopologicalSorter({room: imports - {room} for room, imports in rooms.items()}).prepare()


def test_what_users_run_knows_nothing_of_the_lab():
    for folder in ("functions", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not [name for name in imported(path) if name.split(".")[0] == "lab"], path


def test_the_command_knows_nothing_of_the_domain():
    for path in (ROOT / "cli").rglob("*.py"):
        assert not [name for name in imported(path) if name.split(".")[0] == "rackrate"], path
