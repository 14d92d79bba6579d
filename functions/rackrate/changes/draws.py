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


def draw_anew(title: str, count: int, progress: Json, resources: Resources) -> Made:
    """Empty all node groups, then give each arm so many new nodes.

    Args:
        title: the step's title.
        count: the number of nodes of each arm.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        NodesUnavailable: nodes stay, or do not come.
    """
    coming = progress.get("coming")
    if coming is None:
        leaving = resize_arms(0, progress.get("leaving", {}), resources)
        if not leaving.done:
            return Made(False, {"leaving": leaving.progress}, f"{title}: {leaving.phase}")
        coming = {}
    made = resize_arms(count, coming, resources)
    return Made(made.done, {"coming": made.progress}, f"{title}: {made.phase}")


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
        return draw_anew("new nodes", resources.settings.node_count, progress, resources)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the sizes of the node groups back."""
        return put_back(before, resources)
