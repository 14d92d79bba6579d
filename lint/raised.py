"""Which exceptions Python sources raise, by class name: what Lambda reports as an error's name."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path


@lru_cache
def raised_names(directory: Path) -> frozenset[str]:
    """The class names in the `raise` statements of all Python files under a directory.

    A class counts as raised where it is raised by name, called or not: `raise Lost`,
    `raise errors.Lost("...")`. What libraries raise is not seen.
    """
    found = set()
    for path in directory.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if isinstance(raised, ast.Attribute):
                    found.add(raised.attr)
                elif isinstance(raised, ast.Name):
                    found.add(raised.id)
    return frozenset(found)
