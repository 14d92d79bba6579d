"""Follow one execution to its end. A signal stops the execution, or only the watching."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from .errors import CONNECTION_ERRORS, EXIT_FAILED, EXIT_INTERRUPTED, Refusal, explain
from .progress import Display, TimeLeft, describe
from .runs import Run
from .stack import Execution, Stack

FIRST_POLL_SECONDS = 0.1
POLL_SECONDS = 1.0
"""The longest interval between polls. The first are shorter, because a refused plan ends soon."""

OFFLINE_SECONDS = 120.0
"""How long the network may fail before this command stops watching. The run continues."""

CLEANUP_SECONDS = 120.0
"""How long the stack may take from the end of an execution to the run's last status."""

UNRECORDED_SECONDS = 5.0
"""How long to wait for the run's record after the end. An invalid plan may leave none."""


class Interruption:
    """A context in which SIGINT and SIGTERM are counted and do not end the program.

    The count is a plain attribute without a lock. A signal handler runs in the main thread, so it
    would wait forever for a lock that the main thread holds.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number)
        self.count += 1

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects of a program that a signal ended."""
        return 128 + (self.signal or signal.SIGINT)

    def pause(self, seconds: float, count: int) -> None:
        """Sleep until the time is over or the `count`th signal arrives."""
        deadline = time.monotonic() + seconds
        while self.count < count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(0.1, left))


@dataclass(frozen=True)
class Outcome:
    """A run's final or last known state. `run` is None when the stack has no record."""

    run_id: str
    execution: Execution
    run: Run | None


class Watch:
    """Follow the execution `arn` of the run `run_id`.

    `stops` says whether a signal stops the run, or only the watching. `elapsed` is the number of
    seconds since the run's start. `when_planned` is called once, when the stack has planned the
    run. If it raises Refusal, the watching ends, and with `stops` the run too.
    """

    def __init__(
        self,
        stack: Stack,
        run_id: str,
        arn: str,
        display: Display,
        interruption: Interruption,
        *,
        stops: bool = True,
        elapsed: float = 0.0,
        when_planned: Callable[[], None] | None = None,
    ) -> None:
        self._stack = stack
        self._run_id = run_id
        self._arn = arn
        self._display = display
        self._interruption = interruption
        self._stops = stops
        self._when_planned = when_planned
        self._began = time.monotonic() - elapsed
        self._left = TimeLeft()
        self._offline_since: float | None = None

    def until_over(self) -> Outcome:
        """Wait until the execution is over and the run's last status is written.

        With `stops`, the first signal stops the execution, and a second one ends the waiting for
        its clean-up. Otherwise the first signal ends the watching. Raises Refusal when this
        command can no longer follow or stop the execution, and the Refusal of `when_planned`.
        """
        refusal: Refusal | None = None
        stopped = False
        over_at: float | None = None
        poll_seconds = FIRST_POLL_SECONDS
        execution, run = Execution("RUNNING", "", ""), None
        while True:
            if self._interruption.count and not self._stops:
                return Outcome(self._run_id, execution, run)
            if (self._interruption.count or refusal) and not stopped:
                self._stop()
                stopped = True
            state = self._poll()
            if state is not None:
                execution, run = state
                refusal = refusal or self._refusal(run)
                if not execution.is_running:
                    over_at = over_at or time.monotonic()
                    patience = CLEANUP_SECONDS if run is not None else UNRECORDED_SECONDS
                    settled = run is not None and run.is_over
                    if settled or time.monotonic() - over_at > patience:
                        break
            self._show(execution, run, stopped)
            if stopped and self._interruption.count > 1:
                break
            self._interruption.pause(poll_seconds, count=2 if stopped else 1)
            poll_seconds = min(POLL_SECONDS, 2 * poll_seconds)
        if refusal is not None:
            raise refusal
        return Outcome(self._run_id, execution, run)

    def _refusal(self, run: Run | None) -> Refusal | None:
        """The Refusal of `when_planned`, if any. It is called at most once."""
        if self._when_planned is None or run is None or not run.blocks:
            return None
        look, self._when_planned = self._when_planned, None
        try:
            look()
        except Refusal as refusal:
            if not self._stops:
                raise
            return refusal
        return None

    def _poll(self) -> tuple[Execution, Run | None] | None:
        try:
            # Read the execution first. If it is over, the status read after it is the last one.
            state = self._stack.execution(self._arn), self._stack.run(self._run_id)
        except CONNECTION_ERRORS as error:
            now = time.monotonic()
            self._offline_since = self._offline_since or now
            if now - self._offline_since > OFFLINE_SECONDS:
                raise self._lost(error) from error
            return None
        except (BotoCoreError, ClientError) as error:
            raise self._lost(error) from error
        self._offline_since = None
        return state

    def _lost(self, error: BotoCoreError | ClientError) -> Refusal:
        return Refusal(
            f"Run {self._run_id} can no longer be followed and goes on without this command"
            f" (`rackrate show {self._run_id}` tells its end): {explain(error)}",
            EXIT_FAILED,
        )

    def _stop(self) -> None:
        try:
            self._stack.stop(self._arn, "stopped from the command line")
        except (BotoCoreError, ClientError) as error:
            raise Refusal(
                f"Run {self._run_id} could not be stopped and may go on (`aws stepfunctions"
                f" stop-execution --execution-arn {self._arn}` stops it): {explain(error)}",
                EXIT_INTERRUPTED,
            ) from error

    def _show(self, execution: Execution, run: Run | None, stopped: bool) -> None:
        elapsed = time.monotonic() - self._began
        left = None
        if self._offline_since is not None:
            what = "connection lost, trying again"
        elif stopped and execution.is_running:
            what = "stopping"
        elif not execution.is_running:
            what = "cleaning up"
        elif run is None:
            what = "starting"
        else:
            what = describe(run)
            left = self._left.estimate(run, elapsed)
        self._display.show(what, elapsed, left)
