"""A node's place: how far its rack is from the others, and how near its caps come to EC2's.

On EC2 nobody chooses the host. Here a seed does: the same seed gives the same places in the same
order of launches. Every launch draws again. A rack is at one of 16 positions, each with a delay of
its own to the spine. Racks and hosts reach a share of the documented caps, never more.

The spread of delays and shares is invented: AWS publishes none. The mean delay is chosen so that a
round trip between racks takes about EC2's published 0.46 ms.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass
from statistics import fmean

# What the way between two zones takes longer than that within one. Invented, too: AWS promises
# single-digit milliseconds (AWS whitepaper "AWS Fault Isolation Boundaries", Availability Zones).
BETWEEN_ZONES_SECONDS = 300e-6
POSITIONS = 16
NEAREST_SECONDS, FARTHEST_SECONDS = 60e-6, 90e-6
# A host has this share of the caps at least, and so has a rack. The least product is 0.97.
LEAST_SHARE = 0.985
LARGEST_STRETCH = 5.0
_LARGEST_SEED = 1_000_000


@dataclass(frozen=True)
class RackLuck:
    """A rack's place.

    `position` counts from 0, the nearest; None is the mean distance. `uplink_seconds` is the time
    from the rack to the spine, and from the spine to the rack. `share` multiplies the caps of all
    hosts in the rack.
    """

    position: int | None
    uplink_seconds: float
    share: float


# Where no seed decides: every way is equally long, and every host has the whole caps.
MEAN_RACK = RackLuck(None, fmean((NEAREST_SECONDS, FARTHEST_SECONDS)), 1.0)


def uplink_seconds(position: int, stretch: float = 1.0) -> float:
    """The delay between a position and the spine, one way; see `Luck` for `stretch`."""
    from_mean = position / (POSITIONS - 1) - 0.5
    return MEAN_RACK.uplink_seconds + stretch * from_mean * (FARTHEST_SECONDS - NEAREST_SECONDS)


def fresh_seed() -> int:
    """A seed that nobody chose, short enough to type."""
    return secrets.randbelow(_LARGEST_SEED)


@dataclass(frozen=True)
class Luck:
    """Draws places from a seed. Without a seed every place is the same: the mean, all caps whole.

    Each draw has a name of its own, so that threads in any order get the same places. `stretch`
    multiplies how far the racks' delays lie from their mean: the machine's own load hides what lies
    close together. With `LARGEST_STRETCH` the nearest rack has no delay.
    """

    seed: int | None
    stretch: float = 1.0

    def rack(self, name: str) -> RackLuck:
        """The place of the rack with this name."""
        if self.seed is None:
            return MEAN_RACK
        drawn = self._random("rack", name)
        position = drawn.randrange(POSITIONS)
        return RackLuck(
            position, uplink_seconds(position, self.stretch), drawn.uniform(LEAST_SHARE, 1)
        )

    def host(self, name: str) -> float:
        """The share of the caps that the host with this name has, from `LEAST_SHARE` to 1."""
        return 1.0 if self.seed is None else self._random("host", name).uniform(LEAST_SHARE, 1)

    def _random(self, kind: str, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{kind}/{name}")
