"""The rooms of the domain: their imports point one way, and none knows the lab."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import TopologicalSorter

from tests.templates.cloudformation import ROOT


def imported(path):
    """The modules that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_two_rooms_import_each_other():
    domain = ROOT / "functions/rackrate"
    rooms = defaultdict(set)
    for path in domain.rglob("*.py"):
        own = path.relative_to(domain).parts[0].removesuffix(".py")
        imports = {name.split(".")[1] for name in imported(path) if name.startswith("rackrate.")}
        rooms[own] |= imports - {own}
    assert rooms["stages"]
    TopologicalSorter(rooms).prepare()


def test_what_users_run_knows_nothing_of_the_lab():
    for folder in ("functions", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not [name for name in imported(path) if name.split(".")[0] == "lab"], path


def test_the_command_knows_nothing_of_the_domain():
    for path in (ROOT / "cli").rglob("*.py"):
        assert not [name for name in imported(path) if name.split(".")[0] == "rackrate"], path
