"""The names of runs, campaigns and comparisons, which are their executions' names. Pure."""

from __future__ import annotations

import re

#: An id is a part of a bucket's key and the name of a directory, so it has no dots and no slashes.
ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
ID_WORDS = "1 to 80 letters, digits, hyphens and underscores, a letter or digit first"

_ID = re.compile(ID_PATTERN)


def is_id(name: str) -> bool:
    """Whether a run, a campaign or a comparison may have this id."""
    return _ID.fullmatch(name) is not None
