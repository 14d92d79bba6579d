"""The nodes of an arm, ranked; and what a shared layer of EC2's network is worth."""

from __future__ import annotations

from rackrate_contract.document import Document
from rackrate_contract.verdicts import Better, Ends, Scope, Word


class NodeFigure(Document):
    """A node's figure in one test, the mean of its pairs, against the median node of its arm."""

    test: str
    metric: str
    unit: str
    better: Better
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
    def is_worse(self) -> bool:
        """Whether a test shows that it is worse, and not only with one other node."""
        return any(each.verdict == "worse" and not each.only_with for each in self.figures)


class UnrankedNode(Document):
    """A node with too few measurements for a rank."""

    name: str
    reason: str


class SharedLayer(Document):
    """The pairs that share the lowest layer of EC2's network against those that share the next."""

    test: str
    metric: str
    unit: str
    better: Better
    layer: int
    """The lowest layer that pairs of the arm share, from the top of the network, from 1."""
    next_layer: int
    """The lowest layer that the other pairs share; 0 for none."""
    pairs: int
    """How many pairs share `layer`."""
    next_pairs: int
    """How many share `next_layer` at most."""
    ratio: float | None
    """The figure of the former pairs divided by that of the latter; null if there is none."""
    ci_simultaneous: Ends | None
    """Its interval, adjusted for all tests and arms of the run; null with fewer than six blocks."""
    verdict: Word
    reason: str | None
    """Why it is inconclusive."""
    scope: Scope


class Ranking(Document):
    """The nodes of an arm whose pairs cover it."""

    arm: str
    nodes: tuple[RankedNode, ...]
    """The best first."""
    unranked: tuple[UnrankedNode, ...] = ()
    partners: tuple[int, int] | None = None
    """With how many others a ranked node was measured: fewest and most; null without one."""
    layers: tuple[SharedLayer, ...] = ()
    """Empty if EC2 reports no topology, or all pairs share the same layers."""

    @property
    def separates(self) -> bool:
        """Whether some node is certainly not the best one."""
        return any(node.among_best > 1 for node in self.nodes)

    def may_be_among(self, best: int) -> list[str]:
        """The nodes that may be among so many best ones, the best first."""
        return [node.name for node in self.nodes if node.among_best <= best]
