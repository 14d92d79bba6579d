"""The two kinds of executions that the command follows: runs and campaigns."""

from __future__ import annotations

from dataclasses import dataclass

from .campaigns import Campaign
from .records import Record
from .runs import Run


@dataclass(frozen=True)
class Kind[R: Record]:
    """A kind of execution, in words.

    `record` is what the stack records of one, and `machine` the stack's output with the ARN of the
    state machine. `command` is the command whose `watch` and `show` are about this kind. `plan` is
    what its input is called, and `invalid` the error of an input with faults. `cleaning` is what
    the stack does after the execution, for at most `cleanup_seconds`. An id has `most_letters`.
    """

    record: type[R]
    machine: str
    noun: str
    command: str
    plan: str
    invalid: str
    cleaning: str
    cleanup_seconds: float
    most_letters: int

    @property
    def key(self) -> str:
        """The noun as in the keys of the table, in documents, and within a sentence."""
        return self.noun.lower()


RUN = Kind(
    Run,
    machine="StateMachineArn",
    noun="Run",
    command="rackrate",
    plan="plan",
    invalid="InvalidPlan",
    cleaning="cleaning up",
    cleanup_seconds=120.0,
    most_letters=80,
)
CAMPAIGN = Kind(
    Campaign,
    machine="CampaignStateMachineArn",
    noun="Campaign",
    command="rackrate campaign",
    plan="campaign",
    invalid="InvalidCampaign",
    cleaning="putting back what was changed",
    # To put back, the stack may replace nodes or roll out an add-on again.
    cleanup_seconds=1800.0,
    # The id of a step's run is that of its campaign with the step's number.
    most_letters=RUN.most_letters - len("-100"),
)
