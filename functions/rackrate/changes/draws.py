"""Draws: replace the nodes of all arms, so that their placement is drawn again.

All node groups go to zero at the same time, and back when the last node is gone. A cluster
placement group without instances gets its place anew from the next launch (Amazon EC2 user guide,
"Placement strategies for your placement groups").
"""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.changes.base import Change, Made, Value
from rackrate.changes.renewal import renew
from rackrate.changes.scaling import put_back, sizes_before
from rackrate.errors import Fault
from rackrate.plan.campaign_estimate import DRAW_SECONDS
from rackrate.resources import Resources
from rackrate_contract.document import Json


class NewNodes(Change):
    """New nodes in all arms before each run."""

    name = "draws"
    needs_nodes = False
    seconds = DRAW_SECONDS

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Nothing that the campaign's check does not find already."""
        return []

    def title(self, value: Value | None) -> str:
        """The same at every step."""
        return "new nodes"

    def before(self, resources: Resources) -> Json:
        """The sizes of the node groups."""
        return sizes_before(resources)

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Empty all node groups, then fill them again.

        Raises:
            NodesUnavailable: nodes stay, or do not come back.
        """
        count = self.node_count(value, resources.settings.node_count)
        return renew(progress, resources, count=count)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the sizes of the node groups back."""
        return put_back(before, resources)
