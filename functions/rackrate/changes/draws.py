"""Draws: replace the nodes of all arms, so that their placement is drawn anew.

All node groups go to zero at the same time, and back when the last node is gone. A cluster
placement group without instances gets its place anew from the next launch (Amazon EC2 user guide,
"Placement strategies for your placement groups").
"""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.changes.base import Change, Made, Value
from rackrate.changes.scaling import put_back, resize_arms, sizes_before
from rackrate.document import Json
from rackrate.errors import Fault
from rackrate.plan.campaign_estimate import DRAW_SECONDS
from rackrate.resources import Resources


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
        coming = progress.get("coming")
        if coming is None:
            leaving = resize_arms(0, progress.get("leaving", {}), resources)
            if not leaving.done:
                return Made(False, {"leaving": leaving.progress}, f"new nodes: {leaving.phase}")
            coming = {}
        made = resize_arms(resources.settings.node_count, coming, resources)
        return Made(made.done, {"coming": made.progress}, f"new nodes: {made.phase}")

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the sizes of the node groups back."""
        return put_back(before, resources)
