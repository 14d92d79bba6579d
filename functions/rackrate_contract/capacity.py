"""Whether the nodes that somebody asked for came: each launch, and the share that was filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rackrate_contract.arms import stack_arm_titles
from rackrate_contract.document import Document
from rackrate_contract.verdicts import Ends
from rackrate_text.grouping import grouped_by
from rackrate_text.units import duration
from rackrate_text.words import counted, span

#: The status of a step whose nodes did not all come because EC2 lacked capacity for them.
UNFILLED: Literal["unfilled"] = "unfilled"


class Launch(Document):
    """The nodes of an arm that were asked for at the same time, and how many came."""

    arm: str
    """The arm's name, or `load` for the load nodes."""
    placement: str
    """The strategy of its placement group; `none` without one."""
    asked: int
    got: int
    """How many were Ready when all were, or when the campaign gave up."""
    began_at: str
    """When they were asked for. ISO 8601, UTC."""
    first_seconds: float | None
    """From then until the first node was Ready; null if none came."""
    last_seconds: float | None
    """The same until the last node was Ready; null if not all came."""
    outcome: Literal["filled", "refused", "failed"]
    """`refused`: EC2 had no capacity for all of them. `failed`: not all came for another reason, or
    for one that is not known, so the launch says nothing about capacity."""
    reasons: tuple[str, ...]
    """Why not all came, in the words of EC2, EKS and Auto Scaling."""
    instance_type: str | None
    zone: str | None

    @property
    def in_words(self) -> str:
        """Such as `4 of 4 nodes in 41 s to 48 s`, or `3 of 4 nodes, refused`."""
        came = f"{self.got} of {counted(self.asked, 'node')}"
        if self.outcome != "filled":
            return f"{came}, {self.outcome}"
        return f"{came} in {span(duration(self.first_seconds), duration(self.last_seconds))}"


class Capacity(Document):
    """How often all nodes of an arm came that a campaign asked for."""

    arm: str
    arm_title: str
    """What people read for the arm, such as `cluster group`."""
    placement: str
    value: str | int | None
    """The value of a sweep's steps; null for draws."""
    launches: int
    """The number of launches that were filled or refused."""
    filled: int
    share: float
    """`filled` divided by `launches`."""
    ci95: Ends
    """The 95 % interval of the share that is true of such launches (Clopper-Pearson)."""
    median_seconds: float | None
    """The median time of the filled launches until the last node was Ready; null without one."""
    failed: int
    """The number of launches that failed for another reason, which no figure contains."""
    reasons: tuple[str, ...]
    """Why launches were refused, each reason once, the most frequent first."""

    @property
    def interval(self) -> str:
        """The interval in words, such as `62 to 100 %`."""
        low, high = self.ci95
        return f"{100 * low:.0f} to {100 * high:.0f} %"

    def in_words(self, unit: str = "") -> str:
        """Such as `11 of 12 draws filled (95 % CI 62 to 100 %), in 48 s at the median`.

        Args:
            unit: what a launch is called; empty if a sentence has said all of this before.
        """
        of = f"{counted(self.launches, unit)} filled (95 % CI " if unit else f"{self.launches} ("
        time = f", in {duration(self.median_seconds)} at the median" if self.filled else ""
        return f"{self.filled} of {of}{self.interval}){time}"


def how_they_came(launches: Sequence[Launch], lead: str = "Capacity") -> str:
    """How the nodes of each arm came, in a sentence; empty without launches.

    Such as `Capacity: cluster group 4 of 4 nodes in 41 s to 48 s; no group 3 of 4 nodes, refused.`

    Args:
        launches: the launches of a run, of which the load nodes are left out.
        lead: how it begins.
    """
    titles = stack_arm_titles({each.arm: each.placement for each in launches if each.arm != "load"})
    parts = [f"{titles[each.arm]} {each.in_words}" for each in launches if each.arm in titles]
    return f"{lead}: {'; '.join(parts)}." if parts else ""


def sentences(capacity: Sequence[Capacity], titles: Mapping[str | int | None, str]) -> list[str]:
    """How often the arms were filled: a sentence for draws, or for each value of a sweep.

    Such as `Capacity: cluster group 11 of 12 draws filled (95 % CI 62 to 100 %), in 48 s at the
    median; no group 12 of 12 (74 to 100 %), in 41 s at the median.`

    Args:
        capacity: the campaign's.
        titles: what people read for the values of a sweep.
    """
    sentences = []
    for value, (first, *others) in grouped_by(capacity, lambda each: each.value).items():
        lead = "Capacity" if value is None else f"Capacity, {titles.get(value, value)}"
        parts = [f"{first.arm_title} {first.in_words('draw' if value is None else 'step')}"]
        parts += [f"{each.arm_title} {each.in_words()}" for each in others]
        sentences.append(f"{lead}: {'; '.join(parts)}.")
    return sentences
