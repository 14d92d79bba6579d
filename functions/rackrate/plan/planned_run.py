"""plan.json: the planned run, stored before it measures."""

from __future__ import annotations

from rackrate.plan.model import Plan
from rackrate_contract.arms import Arm, Node
from rackrate_contract.document import Document
from rackrate_contract.estimates import Estimates
from rackrate_contract.verdicts import OnMetric


class PlannedRun(Document):
    """plan.json: the plan with the arms' nodes, and its estimates."""

    run_id: str
    execution_arn: str
    plan: Plan
    compare_with_baseline: str | None
    """The name of the baseline that stood for the earlier runs."""
    metrics: tuple[OnMetric, ...]
    arms: tuple[Arm, ...]
    load_nodes: tuple[Node, ...] = ()
    """The stack's load nodes; empty if it has none, or no test of the plan uses them."""
    dns_nodes: tuple[str, ...] | None = None
    """The node of each pod that answered for the cluster's DNS when the run was planned; null if no
    test asks it, or they are not known."""
    placeholder_nodes: bool
    """Are the nodes not there yet, since only a run asks for them?"""
    image: str
    """The tools' image."""
    kubernetes_version: str | None
    estimates: Estimates

    @property
    def nodes(self) -> dict[str, Node]:
        """Every node that takes part, by name."""
        return {
            node.name: node
            for nodes in (self.load_nodes, *(arm.nodes for arm in self.arms))
            for node in nodes
        }
