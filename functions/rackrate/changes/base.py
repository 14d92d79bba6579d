"""What a change of a campaign is: what it does to the cluster before a run, and how to undo it.

A change is one file of this folder. `rackrate.changes` has the list of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rackrate.errors import Fault
from rackrate.resources import Resources
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Json

#: A value of a sweep, as the campaign's input has it.
Value = str | int


class Made(NamedTuple):
    """How far a change, or its undoing, has come.

    Attributes:
        done: whether nothing is left to wait for.
        progress: what the next call needs to go on; JSON that the campaign stores.
        phase: what is going on, in words, such as `2 of 4 nodes are Ready`.
        launches: how the nodes came that it launched, once all are there.
    """

    done: bool
    progress: Json
    phase: str
    launches: tuple[Launch, ...] = ()


class Change(Protocol):
    """Something that a campaign changes before each of its runs."""

    name: str
    """The field of the campaign's input: `draws`, or a field of `sweep` such as `nodes`."""
    needs_nodes: bool
    """Whether it is made on the nodes that are there, which are woken before; if not, it makes new
    nodes."""
    seconds: tuple[float, float]
    """How long it takes at a step, at least and at most, for the estimate."""

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """What cannot work at any of the steps, found before the first one.

        Args:
            values: the sweep's values in the order of the input; empty for draws.
            resources: the stack's resources.

        Returns:
            Every fault, with its path in the campaign's input, such as `sweep.nodes[2]`.
        """

    def title(self, value: Value | None) -> str:
        """What a step changes, in words: `new nodes`, or `VPC CNI v1.15.4-eksbuild.1`."""

    def node_count(self, value: Value | None, usual: int) -> int:
        """The number of nodes of each arm after the change; `usual` is the stack's number."""
        return usual

    def instance_type(self, value: Value | None) -> str | None:
        """The instance type of the arms' nodes after the change; None if it stays."""
        return None

    def before(self, resources: Resources) -> Json:
        """What `undo` needs, as it is before the campaign changes anything; JSON."""

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Begin the change, or go on with it. A repeated call does no harm.

        Args:
            value: the step's value; None for a draw.
            progress: what the last call returned; empty at the first call of a step.
            resources: the stack's resources.

        Raises:
            NodesUnavailable: nodes do not come back; the message quotes the node group.
            ChangeFailed: an add-on does not get active; the message quotes EKS.
        """

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put back what `before` returned. A repeated call does no harm."""
