"""The lab knows nothing of the project's functions, and its AWS nothing of nodes and networks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2]
FUNCTIONS = ("handlers", "rackrate", "rackrate_text")
BENEATH_AWS = ("lab.fabric", "lab.nodes", "lab.setup", "lab.simulated")


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("folder", "foreign"), [("", FUNCTIONS), ("aws", BENEATH_AWS)])
def test_no_room_of_the_lab_imports_what_lies_above_or_beneath_it(
    folder: str, foreign: tuple[str, ...]
) -> None:
    files = [path for path in (LAB / folder).rglob("*.py") if LAB / "tests" not in path.parents]
    assert len(files) > 50
    wrong = {
        f"{path.relative_to(LAB)} imports {name}"
        for path in files
        for name in imported(path)
        if any(name == one or name.startswith(f"{one}.") for one in foreign)
    }
    assert wrong == set()
