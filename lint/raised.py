"""Find the exceptions that Python sources raise. Lambda reports their class names as errors."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

#: A `raise` at the start of a line. The sources are not parsed, because this also runs in editors,
#: whose Python may be older than that of the sources.
_RAISE = re.compile(r"^[ \t]*raise[ \t]+(?:\w+\.)*(\w+)\b(?![.\[])", re.MULTILINE)


@lru_cache
def raised_names(directory: Path) -> frozenset[str]:
    """The class names in the `raise` statements of all Python files under a directory.

    This finds classes that are raised by name, called or not: `raise Lost` and
    `raise errors.Lost("...")`. It does not find what libraries raise.
    """
    sources = (path.read_text("utf-8") for path in directory.rglob("*.py"))
    return frozenset(name for source in sources for name in _RAISE.findall(source))
