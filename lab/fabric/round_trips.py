"""What a round trip takes on this machine besides the spine: ping between nodes of a lab."""

from __future__ import annotations

import itertools
import re
import statistics
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lab import daemon
from lab.errors import LabError
from lab.fabric.caps import Link
from lab.setup import tools

_ZONE = "topology.kubernetes.io/zone"
_TIME = re.compile(r"time=([\d.]+) ms")
_COUNT, _INTERVAL_SECONDS = 30, 0.1


def machine_seconds(links: Sequence[Link]) -> tuple[float, float]:
    """The median round trip within a rack, and between racks less the spine's part, in seconds.

    Both are measured at the same time, as a run measures its arms.

    Raises:
        LabError: no two nodes share a rack, all do, or ping had no answer.
    """
    pairs: dict[bool, tuple[Link, Link]] = {}
    for one, other in itertools.combinations(links, 2):
        if one.labels.get(_ZONE) == other.labels.get(_ZONE):
            pairs.setdefault(one.rack == other.rack, (one, other))
    if len(pairs) < 2:
        raise LabError(
            "The lab has no two nodes in one rack, or none in two, to measure a round trip between:"
            " deploy the stack with a cluster group, or take the lab down to have them assumed."
        )
    with ThreadPoolExecutor() as pool:
        within, between = pool.map(lambda pair: ping_seconds(*pair), (pairs[True], pairs[False]))
    spine = 2 * sum(each.place.uplink_seconds for each in pairs[False])
    if between <= spine:
        raise LabError(
            "A round trip between racks took less than the spine's delay: measure again."
        )
    return within, between - spine


def ping_seconds(one: Link, other: Link) -> float:
    """The median round trip between two nodes, in seconds. Raises LabError without an answer."""
    address = ".".join(re.findall(r"\d+", other.node)[:4])
    done = subprocess.run(
        [
            *daemon.enter(one.node),
            *tools.command("ping"),
            "-n",
            "-c",
            str(_COUNT),
            "-i",
            str(_INTERVAL_SECONDS),
            address,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    times = [float(each) / 1000 for each in _TIME.findall(done.stdout)]
    if not times:
        raise LabError(f"{other.node} did not answer {one.node}: {done.stderr.strip()[-200:]}.")
    return statistics.median(times)
