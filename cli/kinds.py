"""The two kinds of executions that the command follows: runs and campaigns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Kind:
    """A kind of execution, in words.

    `command` is the command whose `watch` and `show` are about this kind. `plan` is what its input
    is called, and `invalid` the error of an input with faults. `cleaning` is what the stack does
    after the execution, for at most `cleanup_seconds`.
    """

    noun: str
    command: str
    plan: str
    invalid: str
    cleaning: str
    cleanup_seconds: float


RUN = Kind("Run", "rackrate", "plan", "InvalidPlan", "cleaning up", 120.0)
CAMPAIGN = Kind(
    "Campaign",
    "rackrate campaign",
    "campaign",
    "InvalidCampaign",
    "putting back what was changed",
    # To put back, the stack may replace nodes or roll out an add-on again.
    1800.0,
)


class Record(Protocol):
    """The record that the stack keeps of an execution."""

    @property
    def status(self) -> str: ...

    @property
    def error(self) -> str | None: ...

    @property
    def cause(self) -> str | None: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def is_cleaned_up(self) -> bool:
        """Whether it is over and the stack has nothing left to put back."""
