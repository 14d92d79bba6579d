"""Faults of functions' processes: killed, stopped, starved of the processor or of memory.

Each strikes while an invocation runs, from the moment when the runtime has taken the event.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.awslambda.worker import INIT_SECONDS, Invocation, Worker
from lab.faults.leases import Injector, Order

#: How long an invocation runs before it is struck, unless `--option after=SECONDS` says otherwise.
AFTER_SECONDS = 0.05
_PERIOD_SECONDS = 0.1


def injectors(runtime: LambdaRuntime) -> Mapping[str, Injector]:
    """The faults by name."""
    return {
        "function-crash": partial(_striking, runtime, _crash),
        "function-frozen": partial(_striking, runtime, _freeze),
        # Here the rate is the share of time, so every invocation is struck.
        "function-starved": partial(_striking, runtime, _starve, share=1.0),
        "function-out-of-memory": partial(_striking, runtime, _suffocate),
    }


def _crash(worker: Worker, invocation: Invocation, order: Order) -> None:
    worker.signal(signal.SIGKILL)


def _suffocate(worker: Worker, invocation: Invocation, order: Order) -> None:
    worker.take_memory()


def _starve(worker: Worker, invocation: Invocation, order: Order) -> None:
    while not order.over.is_set() and not invocation.done.is_set() and worker.alive:
        worker.signal(signal.SIGSTOP)
        order.over.wait(order.rate * _PERIOD_SECONDS)
        worker.signal(signal.SIGCONT)
        order.over.wait(max((1 - order.rate) * _PERIOD_SECONDS, 0.001))


def _freeze(worker: Worker, invocation: Invocation, order: Order) -> None:
    worker.signal(signal.SIGSTOP)
    while worker.alive and not order.over.wait(0.5):
        pass
    worker.signal(signal.SIGCONT)


@contextlib.contextmanager
def _striking(
    runtime: LambdaRuntime,
    strike: Callable[[Worker, Invocation, Order], None],
    order: Order,
    share: float | None = None,
) -> Iterator[None]:
    """Strike a share of the invocations that begin, of the functions that are meant."""
    after = order.number("after", AFTER_SECONDS)
    rate = order.rate if share is None else share
    strikers: list[threading.Thread] = []

    def invoked(worker: Worker, invocation: Invocation) -> None:
        is_meant = order.on == "all" or order.on.lower() in worker.function_name.lower()
        if not is_meant or random.random() >= rate:
            return

        def wait_and_strike() -> None:
            if not invocation.started.wait(INIT_SECONDS) or order.over.wait(after):
                return
            if not invocation.done.is_set():
                order.hit()
                strike(worker, invocation, order)

        striker = threading.Thread(target=wait_and_strike, name="fault-function", daemon=True)
        strikers.append(striker)
        striker.start()

    with runtime.watched_by(invoked):
        yield
    order.over.set()
    deadline = time.monotonic() + 5.0
    for striker in strikers:
        striker.join(max(0.0, deadline - time.monotonic()))
