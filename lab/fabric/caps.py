"""Changes the caps of nodes in a running lab, for experiments with a known outcome.

Caps that are a tenth lower than EC2's make a difference that a verdict must find. The network
itself differs, so the measured values stay true. Nothing outside the lab can do this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import daemon
from lab.errors import LabError
from lab.fabric.luck import RackLuck
from lab.fabric.network import FABRIC, shape
from lab.fabric.shaping import Limits, class_commands, ingress_command

#: In a node's directory of the lab's state.
FILE = "link.json"
#: In the lab's state: the link of every node that was ever launched, one line of JSON each.
PLACES = "places.jsonl"


@dataclass(frozen=True)
class Link:
    """A node's link with its original caps in bits per second, before any change.

    `rack` is its bridge, `place` the rack's place. A later node may get the name of one that
    ended, but never its instance id.
    """

    node: str
    instance_id: str
    device: str
    limits: Limits
    ena_express: bool
    labels: Mapping[str, str]
    rack: str
    place: RackLuck

    def write(self, directory: Path) -> None:
        """Write the link to the file that `links` reads."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / FILE).write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    def remember(self, state: Path) -> None:
        """Add the link to the record of all places in the lab's state."""
        with (state / PLACES).open("a", encoding="utf-8") as record:
            record.write(json.dumps(dataclasses.asdict(self)) + "\n")


def links() -> list[Link]:
    """The links of all nodes of the running lab, by name."""
    result = []
    for path in sorted((daemon.state_directory() / "nodes").glob(f"*/{FILE}")):
        # A node may end at any time, and its file with it.
        with contextlib.suppress(FileNotFoundError):
            result.append(_link(json.loads(path.read_text("utf-8"))))
    return result


def all_places() -> list[Link]:
    """The links of all nodes that the lab has launched, those that ended included, in order."""
    path = daemon.state_directory() / PLACES
    if not path.exists():
        return []
    return [_link(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def _link(value: Mapping[str, Any]) -> Link:
    limits, place = Limits(**value["limits"]), RackLuck(**value["place"])
    return Link(**{**value, "limits": limits, "place": place})


def change(selector: str, factor: float) -> list[Link]:
    """Multiply the caps of the nodes with a label `key=value` by a factor; 1 restores them.

    The factor applies to the caps with which the node started, in both directions and for every
    flow. Returns the links with their new limits. Raises LabError when no node has the label.
    """
    key, _, value = selector.partition("=")
    existing = links()
    chosen = [link for link in existing if key in link.labels and link.labels[key] == value]
    if not chosen:
        values = sorted({link.labels[key] for link in existing if key in link.labels})
        raise LabError(
            f"No node has the label {selector!r}: "
            + (f"{key} is {', '.join(values)}." if values else f"no node has {key!r} at all.")
        )
    if not 0.01 <= factor <= 1:
        raise LabError(f"The factor is {factor:g}: give a number from 0.01 to 1, such as 0.9.")
    changed = []
    for link in chosen:
        limits = link.limits.times(factor)
        commands = class_commands("eth0", limits, ena_express=link.ena_express)
        shape(commands, daemon.enter(link.node))
        fabric = [*daemon.enter("region"), "nsenter", f"--net=/run/netns/{FABRIC}"]
        shape([ingress_command(link.device, limits)], fabric)
        changed.append(dataclasses.replace(link, limits=limits))
    return changed
