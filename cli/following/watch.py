"""Follow one execution to its end. A signal stops the execution, or only the watching.

The signals are those of Ctrl-C, of `kill` and of a terminal that is closed. Nobody watches a run
whose terminal is gone, and it costs money, so it is stopped too. With `nohup` it goes on.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from ..errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNKNOWN,
    Refusal,
    error_code,
    explain,
    is_temporary,
)
from ..patience import brief
from ..printing.progress import Display, Late, Left, TimeLeft, describe, pace_of
from ..reading.kinds import RUN, Kind
from ..reading.records import Record
from ..reading.requirements import Requirement, check_planned
from ..reading.runs import Run
from ..reading.stack import Execution, Outcome, Stack
from .losses import Losses

FIRST_POLL_SECONDS = 0.1
POLL_SECONDS = 1.0
"""The longest interval between polls. The first are shorter, because a refused plan ends soon."""

OFFLINE_SECONDS = 120.0
"""How long AWS may not answer before this command stops watching. The execution continues."""

UNRECORDED_SECONDS = 5.0
"""How long to wait for the record after the end. An invalid plan may leave none."""


class Interruption:
    """A context in which SIGINT, SIGTERM and SIGHUP are counted and do not end the program.

    The count is a plain attribute without a lock. A signal handler runs in the main thread, so it
    would wait forever for a lock that the main thread holds.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_IGN:
                continue  # as `nohup` and a shell's background jobs ask for
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
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


class Followed[R: Record](ABC):
    """What a watch follows: an execution of one kind and its record."""

    kind: Kind[R]

    def __init__(self, stack: Stack, name: str) -> None:
        self.id = name
        self.arn = stack.arn(self.kind, name)
        self.stack = stack
        self._left = TimeLeft()
        self._losses = Losses(stack)
        self._news: list[str] = []

    @abstractmethod
    def read(self) -> R | None:
        """Read the record, or None if there is none (yet)."""

    @abstractmethod
    def planned_run(self, record: R) -> str | None:
        """The id of a run whose plan is made, with every arm and metric; None before."""

    @abstractmethod
    def describe(self, record: R, elapsed: float) -> tuple[str, Left | Late | None]:
        """What it does now, and the time left; `elapsed` is seconds since its start."""

    def news(self) -> list[str]:
        """What has happened since the last call and is to be reported once, such as a loss."""
        news, self._news = self._news, []
        return news

    def check(self, requirements: Sequence[Requirement], run_id: str) -> None:
        """Raise Refusal for a requirement that the plan of a run can never meet."""
        if (content := self.stack.file(run_id, "plan.json")) is not None:
            check_planned(requirements, json.loads(content))


class FollowedRun(Followed[Run]):
    """A run that a watch follows."""

    kind = RUN

    def read(self) -> Run | None:
        """The run's record; reads what it has lost, too."""
        run = self.stack.record(RUN, self.id)
        if run is not None:
            self._news += self._losses.since_last_look(run)
        return run

    def planned_run(self, record: Run) -> str | None:
        """The run, once the number of its blocks is known."""
        return self.id if record.blocks else None

    def describe(self, record: Run, elapsed: float) -> tuple[str, Left | Late | None]:
        """The phase and the block."""
        left = None if record.has_measured else self._left.estimate(pace_of(record), elapsed)
        return describe(record), left


@dataclass
class Watch[R: Record]:
    """Follow an execution.

    `stops` says whether a signal stops the execution, or only the watching. `elapsed` is the number
    of seconds since its start. If the plan of a run can never meet one of the `requirements`, the
    watching ends with a Refusal, and with `stops` the execution too.
    """

    followed: Followed[R]
    display: Display
    interruption: Interruption
    requirements: Sequence[Requirement] = ()
    stops: bool = True
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        self._kind, self._stack = self.followed.kind, self.followed.stack
        self._began = time.monotonic() - self.elapsed
        self._offline_since: float | None = None

    def until_over(self) -> Outcome[R]:
        """Wait until the execution is over and the stack has cleaned up after it.

        With `stops`, the first signal stops the execution, and a second one ends the waiting for
        its clean-up. Otherwise the first signal ends the watching. Raises Refusal when this
        command can no longer follow or stop the execution, and for the requirements.
        """
        refusal: Refusal | None = None
        stopped = False
        over_at: float | None = None
        poll_seconds = FIRST_POLL_SECONDS
        execution, record = Execution("RUNNING", "", ""), None
        with brief(), self.display:
            while True:
                if self.interruption.count and not self.stops:
                    return self._outcome(execution, record)
                stopping = bool(self.interruption.count or refusal)
                stopped = stopped or (stopping and self._stop())
                state = self._poll()
                if state is not None:
                    execution, record = state
                    refusal = refusal or self._refusal(record)
                    if not execution.is_running:
                        over_at = over_at or time.monotonic()
                        patience = UNRECORDED_SECONDS
                        if record is not None:
                            patience = self._kind.cleanup_seconds
                        settled = record is not None and record.is_cleaned_up
                        if settled or time.monotonic() - over_at > patience:
                            break
                # A terminal that was closed takes no more text. Its signal ends the watching.
                with contextlib.suppress(OSError):
                    self._show(execution, record, stopped)
                if stopped and self.interruption.count > 1:
                    break
                self.interruption.pause(poll_seconds, count=2 if stopping else 1)
                poll_seconds = min(POLL_SECONDS, 2 * poll_seconds)
        if refusal is not None:
            raise refusal
        return self._outcome(execution, record)

    def _outcome(self, execution: Execution, record: R | None) -> Outcome[R]:
        return Outcome(self.followed.id, execution, record, self._kind)

    def _refusal(self, record: R | None) -> Refusal | None:
        """The Refusal of a requirement, if any. They are checked once AWS has answered."""
        if not self.requirements or record is None:
            return None
        try:
            if (run_id := self.followed.planned_run(record)) is not None:
                self.followed.check(self.requirements, run_id)
                self.requirements = ()
        except Refusal as refusal:
            if not self.stops:
                raise
            return refusal
        except (BotoCoreError, ClientError) as error:
            self._bear(error)
        return None

    def _poll(self) -> tuple[Execution, R | None] | None:
        try:
            # Read the execution first. If it is over, the status read after it is the last one.
            state = self._stack.execution(self.followed.arn), self.followed.read()
        except Exception as error:
            self._bear(error)
            return None
        self._offline_since = None
        return state

    def _bear(self, error: Exception) -> None:
        """Note that AWS does not answer. Raises Refusal unless that may still pass."""
        now = time.monotonic()
        self._offline_since = self._offline_since or now
        if not is_temporary(error) or now - self._offline_since > OFFLINE_SECONDS:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> Refusal:
        if isinstance(error, ClientError) and error_code(error) == "ExecutionDoesNotExist":
            return Refusal(
                f"{self._named} is over: its execution is gone, as after the deletion of its stack."
                f" What it stored until then is in the bucket {self._stack.bucket}.",
                EXIT_FAILED,
            )
        return Refusal(
            f"{self._named} can no longer be followed and goes on without this command"
            f" (`{self._kind.command} show {self.followed.id}` shows its end): {explain(error)}",
            EXIT_UNKNOWN,
        )

    @property
    def _named(self) -> str:
        return f"{self._kind.noun} {self.followed.id}"

    def _stop(self) -> bool:
        """Stop the execution. Returns whether AWS has answered; a second signal ends the tries."""
        try:
            where = f"s3://{self._stack.bucket}/{self._kind.key}s/{self.followed.id}/"
            cause = f"stopped from the command line; what it had measured is in {where}"
            self._stack.stop(self.followed.arn, cause)
        except (BotoCoreError, ClientError) as error:
            if is_temporary(error) and self.interruption.count < 2:
                return False  # the poll that follows knows for how long
            raise Refusal(
                f"{self._named} could not be stopped and may go on (`aws stepfunctions"
                f" stop-execution --execution-arn {self.followed.arn}` stops it):"
                f" {explain(error)}",
                EXIT_INTERRUPTED,
            ) from error
        return True

    def _show(self, execution: Execution, record: R | None, stopped: bool) -> None:
        elapsed = time.monotonic() - self._began
        for event in self.followed.news():
            self.display.report(event, elapsed)
        left = None
        if self._offline_since is not None:
            what = "no answer from AWS, trying again"
        elif stopped and execution.is_running:
            what = "stopping"
        elif not execution.is_running:
            what = self._kind.cleaning
        elif record is None:
            what = "starting"
        else:
            what, left = self.followed.describe(record, elapsed)
            if record.is_over:  # the execution ends in a moment
                left = None
        self.display.show(what, elapsed, left)


def seconds_since(started_at: str, now: datetime | None = None) -> float:
    """The seconds since an ISO 8601 time that the stack wrote; 0 if it wrote none."""
    try:
        since = (now or datetime.now(UTC)) - datetime.fromisoformat(started_at)
    except (ValueError, TypeError):  # no time, or one without its zone
        return 0.0
    # The stack's clock may be ahead of this machine's.
    return max(0.0, since.total_seconds())
