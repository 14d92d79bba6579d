"""Wait for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually[T](get: Callable[[], T], *, seconds: float, poll_seconds: float = 0.1) -> T:
    """The first answer that is true. Fails at the deadline, showing the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        found = get()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still {found!r}")
        time.sleep(poll_seconds)
