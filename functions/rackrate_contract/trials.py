"""The trials of a run: their keys, how many were measured, why others failed, and marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rackrate_contract.document import Document
from rackrate_text.failures import Loss

Status = Literal["measured", "failed"]


@dataclass(frozen=True, order=True)
class TrialKey:
    """The key of a trial within a run. `client` and `server` are node names."""

    block: int
    arm: str
    test: str
    client: str
    server: str

    @property
    def id(self) -> str:
        """The trial's name in file names."""
        return f"{self.block:04d}_{self.arm}_{self.test}_{self.client}_{self.server}"


class OfTrial(Document):
    """What is about one trial."""

    block: int
    arm: str
    test: str
    client: str
    server: str

    @property
    def key(self) -> TrialKey:
        """The trial."""
        return TrialKey(self.block, self.arm, self.test, self.client, self.server)


class Mark(OfTrial):
    """A warning on a trial. Marked trials stay in the verdicts."""

    mark: str
    text: str
    """What was found, with its figures."""

    @classmethod
    def of(cls, key: TrialKey, mark: str, text: str) -> Mark:
        """A mark of a trial."""
        return cls.from_fields(key, mark=mark, text=text)


class Failure(OfTrial):
    """A trial that ran and failed."""

    attempt: int
    reason: str


class LossOfTrials(Document):
    """A cause that cost trials."""

    cause: str
    """The reason, without what differs between equal ones, such as ids."""
    count: int
    where: tuple[str, ...]
    """The titles of the arms and the nodes of these trials; empty if they never ran."""

    @property
    def loss(self) -> Loss:
        """The cause in words."""
        return Loss(self.count, self.cause, self.where)


class TrialCounts(Document):
    """Counts of the trials, without the warm-up; planned = measured + failed."""

    planned: int
    measured: int
    failed: int
    failures: tuple[Failure, ...]
    causes: tuple[LossOfTrials, ...] = ()
    """Why they failed, the most frequent cause first. Their counts add up to `failed`."""


class WarmUpTrial(Document):
    """A trial of the warm-up."""

    arm: str
    test: str
    client: str
    server: str
    status: Status
    metric: str
    value: float | None
    unit: str
    reason: str | None


class WarmUp(Document):
    """The warm-up, which no verdict, summary or count uses."""

    measured: int
    failed: int
    trials: tuple[WarmUpTrial, ...]
