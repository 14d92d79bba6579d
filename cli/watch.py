"""Follow one execution to its end, and stop it when the user asks."""

from __future__ import annotations

import signal
import time
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
    """How a run ended. `run` is None when the stack has no record of it."""

    execution: Execution
    run: Run | None


class Watch:
    """Follow the execution `arn` of the run `run_id`."""

    def __init__(
        self, stack: Stack, run_id: str, arn: str, display: Display, interruption: Interruption
    ) -> None:
        self._stack = stack
        self._run_id = run_id
        self._arn = arn
        self._display = display
        self._interruption = interruption
        self._began = time.monotonic()
        self._left = TimeLeft()
        self._offline_since: float | None = None

    def until_over(self) -> Outcome:
        """Return when the execution is over and the run's last status is written.

        The first signal stops the execution; a second one stops the waiting for its clean-up.
        Raises Refusal when the execution can no longer be followed or stopped.
        """
        stopped = False
        over_at: float | None = None
        poll_seconds = FIRST_POLL_SECONDS
        execution, run = Execution("RUNNING", "", ""), None
        while True:
            if self._interruption.count and not stopped:
                self._stop()
                stopped = True
            state = self._poll()
            if state is not None:
                execution, run = state
                if not execution.is_running:
                    over_at = over_at or time.monotonic()
                    patience = CLEANUP_SECONDS if run is not None else UNRECORDED_SECONDS
                    settled = run is not None and run.is_over
                    if settled or time.monotonic() - over_at > patience:
                        return Outcome(execution, run)
            self._show(execution, run, stopped)
            if stopped and self._interruption.count > 1:
                return Outcome(execution, run)
            self._interruption.pause(poll_seconds, count=2 if stopped else 1)
            poll_seconds = min(POLL_SECONDS, 2 * poll_seconds)

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
