"""Schedules for tests: of fixed arms, and of any plan."""

from __future__ import annotations

from hypothesis import strategies as st

from rackrate.plan.fields import RandomPairs
from rackrate.plan.items import (
    build_schedule,
    build_warm_up,
)
from tests.unit.builders import arm, plan
from tests.unit.samples import NODES

ARMS = [arm(name, nodes) for name, nodes in NODES.items()]


def build(arms=ARMS, **changes):
    return build_schedule(plan(**changes), arms)


def warm_up(arms=ARMS, **changes):
    return build_warm_up(plan(**changes), arms)


def edge(pair):
    return frozenset(way(pair))


def way(pair):
    return pair.client, pair.server


def names(prefix, number):
    return tuple(f"{prefix}-{index:04d}" for index in range(number))


@st.composite
def plans(draw, kinds=("one", "ring", "mesh", "random")):
    """Plans with up to three groups of nodes of up to three arms each, in pods and on hosts.

    Each value has the arguments of `build`.
    """
    sizes = draw(st.lists(st.integers(2, 7), min_size=1, max_size=3))
    network = st.sampled_from(["pod", "host"])
    arms = []
    for index, size in enumerate(sizes):
        nodes = names("abc"[index], size)
        for number in range(draw(st.integers(1, 3 if index == 0 else 2))):
            networks = {"client_network": draw(network), "server_network": draw(network)}
            arms.append(arm(f"{'xyz'[index]}-{number}", nodes, **networks))
    kind = draw(st.sampled_from(kinds))
    most = min(sizes) * (min(sizes) - 1) // 2
    return {
        "arms": arms,
        "blocks": draw(st.integers(1, 4)),
        "pairing": RandomPairs(random=draw(st.integers(1, most))) if kind == "random" else kind,
        "direction": draw(st.sampled_from(["alternate", "forward", "reverse", "both"])),
        "load": draw(st.sampled_from(["isolated", "together"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }
