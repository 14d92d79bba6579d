"""Follow one execution to its end; when the user asks, stop it or leave it alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from .errors import CONNECTION_ERRORS, EXIT_FAILED, EXIT_INTERRUPTED, Refusal, explain
from .progress import Display, TimeLeft
from .runs import Run
from .stack import Execution, Stack

FIRST_POLL_SECONDS = 0.1
POLL_SECONDS = 1.0
"""Polls start close together, since a refused plan ends at once, and slow down to this."""

OFFLINE_SECONDS = 120.0
"""A network that stays away longer than this ends the watching, never the run."""

CLEANUP_SECONDS = 120.0
"""How long the stack may take from the end of an execution to the run's last status."""

UNRECORDED_SECONDS = 5.0
"""How long to wait for a run that was never recorded: an invalid plan need not leave one."""


class Interruption:
    """While entered, SIGINT and SIGTERM are noted instead of ending the program.

    The flag is a plain attribute: a handler runs between two instructions of the main thread,
    where taking a lock that the main thread holds would never end.
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
        """What a shell expects of a program that a signal ended."""
        return 128 + (self.signal or signal.SIGINT)

    def pause(self, seconds: float, count: int) -> None:
        """Sleep, but no longer than until the `count`th signal."""
        deadline = time.monotonic() + seconds
        while self.count < count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(0.1, left))


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or how it was last seen. `run` is None when the stack has no record."""

    run_id: str
    execution: Execution
    run: Run | None


class Watch:
    """Follow the execution `arn` of the run `run_id`.

    `stops` says whether a signal stops the run, or only the watching. `elapsed` is how many seconds
    the run has been going already. `when_planned` is called once, when the stack has planned the
    run; a Refusal of it ends the watching, and the run too if `stops`.
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
        """Return when the execution is over and the run's last status is written.

        The first signal stops the execution; a second one stops the waiting for its clean-up.
        If nothing is to be stopped, the first signal ends the watching. Raises Refusal when the
        execution can no longer be followed or stopped, and what `when_planned` raises.
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
        """Why the run, as it was planned, is not what was asked for; looked at once."""
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
            # The execution first: a status read after its end is the last one.
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
        block, blocks, left = 0, 0, None
        if self._offline_since is not None:
            phase = "connection lost, trying again"
        elif stopped and execution.is_running:
            phase = "stopping"
        elif not execution.is_running:
            phase = "cleaning up"
        elif run is None:
            phase = "starting"
        else:
            phase, block, blocks = run.phase or run.status, run.block, run.blocks
            left = self._left.estimate(run, elapsed)
        self._display.show(phase, block, blocks, elapsed, left)
