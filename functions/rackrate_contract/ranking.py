"""The nodes of an arm, ranked; and what a shared layer of EC2's network is worth."""

from __future__ import annotations

from rackrate_contract.document import Document
from rackrate_contract.verdicts import Ends, OnMetric, Scope, Word
from rackrate_text.units import change, changes
from rackrate_text.words import counted, host_name, listed, metric_of_test, names_by_reason

#: The most nodes that a sentence names.
_MOST_NAMES = 12
#: The most nodes that it names for making others look worse.
_MOST_PARTNERS = 3


class NodeFigure(OnMetric):
    """A node's figure in one test, the mean of its pairs, against the median node of its arm."""

    mean: float
    """The geometric mean of its pairs, which have equal weight."""
    ratio: float
    """To the figure of the arm's median node."""
    ci_simultaneous: Ends
    """The interval of the ratio, adjusted for all nodes, tests and arms of the run, and cut to what
    the verdict says."""
    verdict: Word
    among_best: int
    """The least k for which the node may be among the k best of the arm in this test."""
    only_with: str | None = None
    """If it is worse only because of its pair with one other node: that node."""

    @property
    def is_worse(self) -> bool:
        """Whether it is shown to be worse, and not only with one other node."""
        return self.verdict == "worse" and not self.only_with


class RankedNode(Document):
    """A node of an arm."""

    name: str
    ratio: float
    """The geometric mean of its ratios over the tests, inverted where less is better. Above 1 is
    better than the arm's median node."""
    among_best: int
    """The least k for which it may be among the k best of the arm, all tests together. In 95 % of
    runs the k best are among the nodes that have k or less."""
    figures: tuple[NodeFigure, ...]

    @property
    def rank(self) -> str:
        """How good it may be, in words."""
        if self.among_best == 1:
            return "may be the best"
        better = self.among_best - 1
        return "not the best" if better == 1 else f"not among the {better} best"

    @property
    def is_worse(self) -> bool:
        """Whether a test shows that it is worse."""
        return any(each.is_worse for each in self.figures)


class UnrankedNode(Document):
    """A node with too few measurements for a rank."""

    name: str
    reason: str


class SharedLayer(Document):
    """The pairs that share the lowest layer of EC2's network against those that share the next."""

    test: str
    metric: str
    layer: int
    """The lowest layer that pairs of the arm share, from the top of the network, from 1."""
    next_layer: int
    """The lowest layer that the other pairs share; 0 for none."""
    pairs: int
    """How many pairs share `layer`."""
    next_pairs: int
    """How many share no layer below `next_layer`."""
    ratio: float | None
    """The figure of the former pairs divided by that of the latter; null if there is none."""
    ci_simultaneous: Ends | None
    """Its interval, adjusted for all tests and arms of the run; null with fewer than six blocks."""
    verdict: Word
    reason: str | None
    """Why it is inconclusive."""
    scope: Scope

    def __str__(self) -> str:
        """A sentence for people."""
        following = f"layer {self.next_layer}" if self.next_layer else "none"
        ends = f" ({changes(self.ci_simultaneous)})" if self.ci_simultaneous else ""
        why = f": {self.reason.rstrip('.')}" if self.reason else ""
        return (
            f"{counted(self.pairs, 'pair')} in layer {self.layer} of EC2's network against"
            f" {self.next_pairs} in {following}, {metric_of_test(self.test, self.metric)}:"
            f" {change(self.ratio)}{ends}, {self.verdict}, about {self.scope}{why}."
        )


class Ranking(Document):
    """The nodes of an arm whose pairs cover it."""

    arm: str
    nodes: tuple[RankedNode, ...]
    """The best first."""
    unranked: tuple[UnrankedNode, ...] = ()
    least_partners: int = 0
    """With how many others each ranked node was measured at least."""
    layers: tuple[SharedLayer, ...] = ()
    """Empty if EC2 reports no topology, or all pairs share the same layers."""

    @property
    def worse(self) -> list[str]:
        """The nodes that are worse than the rest, the worst first."""
        return [node.name for node in reversed(self.nodes) if node.is_worse]

    def may_be_among(self, best: int) -> list[str]:
        """The nodes that may be among so many best ones, the best first."""
        return [node.name for node in self.nodes if node.among_best <= best]

    def sentences(self) -> list[str]:
        """What it shows, in sentences."""
        lines = []
        if self.nodes:
            best, worse = self.may_be_among(1), self.worse
            if len(best) == len(self.nodes):
                lines.append(f"Each of the {len(best)} nodes may be the best.")
            else:
                lines.append(f"May be the best: {_names(best)}.")
            if worse:
                lines.append(f"Worse than the rest: {_names(worse)}.")
            else:
                lines.append("No node is shown to be worse than the rest.")
        with_one = (
            (host_name(node.name), figure.only_with)
            for node in self.nodes
            for figure in node.figures
            if not node.is_worse
        )
        partners = [*names_by_reason(with_one).items()]
        for partner, names in partners[:_MOST_PARTNERS]:
            one = host_name(partner)
            lines.append(f"Worse only with {one}: {listed(names, most=_MOST_NAMES)}.")
        if more := {name for _, names in partners[_MOST_PARTNERS:] for name in names}:
            lines.append(f"{counted(len(more), 'more node')} are worse only with one other.")
        if self.least_partners < len(self.nodes) - 1:
            lines.append(
                f"A node was measured with {self.least_partners} others or more, not with all: what"
                " those are like is part of its figure. A mesh measures all."
            )
        reasons = ((host_name(each.name), each.reason) for each in self.unranked)
        for reason, names in names_by_reason(reasons).items():
            lines.append(f"Not ranked, {listed(names, most=_MOST_NAMES)}: {reason}.")
        return [*lines, *map(str, self.layers)]


def _names(nodes: list[str]) -> str:
    return listed(map(host_name, nodes), most=_MOST_NAMES)
