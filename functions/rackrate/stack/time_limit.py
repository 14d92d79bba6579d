"""A limit of time for a block of code, wherever the block is when its time is up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class OutOfTime(BaseException):
    """The time is up. It is no Exception, so that no library takes it for a failed request."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End a block after some time, also one that waits for the network.

    A signal ends it, so this works in the main thread only, where Lambda calls handlers.

    Raises:
        OutOfTime: the block did not end in time.
    """

    def end(*_: object) -> None:
        raise OutOfTime

    former = signal.signal(signal.SIGALRM, end)
    # Zero would be no limit.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
