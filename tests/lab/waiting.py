"""Wait for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

BUSY = 3


def eventually[T](get: Callable[[], T], *, seconds: float, poll_seconds: float = 0.25) -> T:
    """The first answer that is true. Fails at the deadline, showing the last answer.

    `seconds` is what an idle machine needs at most; other labs may be at work on this one.
    """
    deadline = time.monotonic() + BUSY * seconds
    while True:
        result = get()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"after {BUSY * seconds:.0f} s still {result!r}")
        time.sleep(poll_seconds)
