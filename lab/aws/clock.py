"""The current time, in the form that descriptions and events use."""

from __future__ import annotations

import datetime


def now() -> datetime.datetime:
    """The current time, with its time zone."""
    return datetime.datetime.now(tz=datetime.UTC)
