"""Runs that used the same nodes while a run measured. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from rackrate.measure.trials import Trial
from rackrate_text.units import duration, moment
from rackrate_text.words import listed

_time = datetime.datetime.fromisoformat


@dataclass(frozen=True)
class Span:
    """A time span; both ends are ISO 8601, UTC."""

    start: str
    end: str

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> Self | None:
        """The span of trials, from the first start to the last end; None if no times are known."""
        timed = [trial for trial in trials if trial.started_at and trial.finished_at]
        if not timed:
            return None
        return cls(
            min(str(trial.started_at) for trial in timed),
            max(str(trial.finished_at) for trial in timed),
        )

    @property
    def seconds(self) -> float:
        """Its length; negative if the end is before the start."""
        return (_time(self.end) - _time(self.start)).total_seconds()

    def shared_with(self, other: Span) -> Span:
        """The span that both have in common; its length is negative if they have none."""
        return Span(
            max(self.start, other.start, key=_time),
            min(self.end, other.end, key=_time),
        )


@dataclass(frozen=True)
class OtherRun:
    """Another run, and its time on its nodes.

    Attributes:
        run_id: the run.
        span: when it had its nodes.
        stack_arms: the stack's arms whose nodes it used; empty where that was not recorded.
    """

    run_id: str
    span: Span
    stack_arms: frozenset[str]


def overlaps(span: Span, stack_arms: Iterable[str], others: Iterable[OtherRun]) -> list[str]:
    """Sentences on the runs that used the same nodes while a run measured.

    Args:
        span: when the run measured.
        stack_arms: the stack's arms whose nodes it used.
        others: the other runs.
    """
    ours = list(stack_arms)
    sentences = []
    for other in sorted(others, key=lambda other: (other.span.start, other.run_id)):
        shared = span.shared_with(other.span)
        arms = [arm for arm in ours if arm in other.stack_arms or not other.stack_arms]
        if shared.seconds <= 0 or not arms:
            continue
        used = "used" if other.stack_arms else "may have used"
        sentences.append(
            f"The run {other.run_id} {used} the nodes of {listed(arms)} too, for"
            f" {duration(shared.seconds)} of the {duration(span.seconds)} in which this run"
            f" measured ({moment(shared.start)} to {moment(shared.end)}). The two can have"
            " disturbed each other, so the values may be wrong: measure again while no other run"
            " goes on."
        )
    return sentences
