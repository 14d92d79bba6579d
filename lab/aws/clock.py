"""The time, as descriptions and events have it."""

from __future__ import annotations

import datetime


def now() -> datetime.datetime:
    """Now, with its zone."""
    return datetime.datetime.now(tz=datetime.UTC)
