"""Find the exceptions that Python sources raise. Lambda reports their class names as errors."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path


@lru_cache
def raised_names(directory: Path) -> frozenset[str]:
    """The class names in the `raise` statements of all Python files under a directory.

    This finds classes that are raised by name, called or not: `raise Lost` and
    `raise errors.Lost("...")`. It does not find what libraries raise.
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
