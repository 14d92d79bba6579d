"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], *, seconds: float, poll_seconds: float = 0.1) -> bool:
    """Wait until a condition holds. Returns whether it did before the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True
