"""Crashes of a function in the middle of its work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rackrate.executions.store import Store

_WRITES = ("Put", "Update", "Delete", "Batch")


class Crashed(BaseException):
    """The process ended. No code of the function catches it."""


@contextlib.contextmanager
def crashing(store: Store, *, after: int) -> Iterator[None]:
    """Let the process end right after its n-th write to the table or the bucket."""
    left = [after]

    def wrote(model: Any, **_: Any) -> None:
        if model.name.startswith(_WRITES):
            left[0] -= 1
            if left[0] == 0:
                raise Crashed

    listened = [client.meta.events for client in (store.table.client, store.objects._s3)]
    for events in listened:
        events.register("after-call", wrote)
    try:
        yield
    finally:
        for events in listened:
            events.unregister("after-call", wrote)


def crash_then_repeat[Answer](store: Store, work: Callable[[], Answer], *, after: int) -> Answer:
    """Run a function that crashes after its n-th write, and run it again, as Step Functions does.

    A function with fewer writes runs twice to its end.
    """
    with contextlib.suppress(Crashed), crashing(store, after=after):
        work()
    return work()
