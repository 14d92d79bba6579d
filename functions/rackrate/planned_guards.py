"""What a plan can be warned of before anything is measured. Pure.

Each guard says what it found, whether it would trip, and what to do about it; guards that would not
trip are told as well, so that a reader knows what was looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackrate.ceilings import InstanceNetwork, bit_rate, limit_for
from rackrate.plan_fields import LEAST_BLOCKS
from rackrate.tools import TestBase

Json = dict[str, Any]

#: From here on a single thread may be too slow for iperf3: "iperf does not reach full speed on fast
#: network connection such as 40 Gbps or 100 Gbps" (https://access.redhat.com/solutions/4486291).
ONE_THREAD_BITS_PER_SECOND = 40e9

#: Facts of nodes in which arms should not differ, and what to call them.
_CONFOUNDS = (
    ("zones", "zone", "zone", "put the nodes of all arms in one zone"),
    ("instance_types", "instance_type", "instance type", "use one instance type for all arms"),
    ("images", "image", "AMI", "bring all node groups to one release of the AMI"),
    ("kernels", "kernel", "kernel", "bring all node groups to one release of the AMI"),
)


@dataclass(frozen=True)
class Outlook:
    """What is planned.

    Attributes:
        arms: as in plan.json.
        baseline: the baseline's name.
        tests: the plan's tests.
        blocks: how many.
        items: the schedule.
        seconds: how long the run takes.
        bytes_per_node: `sent` and `received` of each node, at most.
    """

    arms: Sequence[Json]
    baseline: str
    tests: Sequence[TestBase]
    blocks: int
    items: Sequence[Mapping[str, Any]]
    seconds: float
    bytes_per_node: Mapping[str, Mapping[str, int]]


def planned_guards(outlook: Outlook) -> list[Json]:
    """Every guard: `guard`, `would_trip`, `text`, and `remedy`, which is empty if it would not."""
    return [
        burst_credits(outlook),
        arms_cannot_differ(outlook),
        few_blocks(outlook),
        one_pair(outlook),
        *(confound(outlook, *about) for about in _CONFOUNDS),
        one_thread(outlook),
        placeholder_nodes(outlook),
    ]


def _guard(name: str, would_trip: bool, text: str, remedy: str) -> Json:
    return {
        "guard": name,
        "would_trip": would_trip,
        "text": text,
        "remedy": remedy if would_trip else "",
    }


def burst_credits(outlook: Outlook) -> Json:
    """Would nodes send or receive more, on the mean of the run, than their instances sustain?

    Each direction has a bandwidth by itself. Instances get all their credits at launch, earn them
    while they are below their baseline and spend them above it; a burst lasts "typically from 5 to
    60 minutes, depending on the instance size", and how many credits that is, is not documented
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html). So
    the mean over the run counts, pauses among it.
    """
    worst: tuple[float, str, float, float] | None = None
    known = False
    for arm in outlook.arms:
        network = InstanceNetwork(**arm["network"])
        baseline = network.baseline_bits_per_second
        known = known or (baseline is not None and network.peak_bits_per_second is not None)
        if not network.bursts or baseline is None or outlook.seconds <= 0:
            continue
        sustained = baseline * (1.0 if arm["network_scale"] is None else arm["network_scale"])
        for node in arm["nodes"]:
            ways = outlook.bytes_per_node.get(node["name"], {})
            rate = max(ways.values(), default=0) * 8 / outlook.seconds
            if worst is None or rate / sustained > worst[0]:
                worst = (rate / sustained, node["name"], rate, sustained)
    if worst is None:
        text = "the instances have no burst" if known else "what the instances sustain is not known"
        return _guard("burst_credits", False, text, "")
    share, node_name, rate, sustained = worst
    text = (
        f"{node_name} may come to {bit_rate(rate)} one way on the mean of the run,"
        f" {share:.1f} times the {bit_rate(sustained)} its instance sustains"
    )
    excess = (rate - sustained) * outlook.seconds / 8
    if excess > 0:
        text += (
            f", which takes {excess / 1e9:.1f} GB out of its burst; bursts last 5 to 60 minutes,"
            f" and this is to take {outlook.seconds / 60:.0f}"
        )
    return _guard(
        "burst_credits",
        share > 1,
        text,
        "ask for fewer blocks or shorter tests, limit the tests' rate, or use an instance type"
        " without a burst; marks will tell if the burst ends",
    )


def arms_cannot_differ(outlook: Outlook) -> Json:
    """Tests in which arms of different placement have the same limit."""
    baseline = next(arm for arm in outlook.arms if arm["name"] == outlook.baseline)
    told = []
    for test in outlook.tests:
        theirs = limit_for(baseline, test)
        for arm in outlook.arms:
            ours = limit_for(arm, test)
            alike = _network_of(arm) == _network_of(baseline)
            if alike or ours is None or theirs is None:
                continue
            if ours.bits_per_second == theirs.bits_per_second:
                size = bit_rate(ours.bits_per_second)
                told.append(
                    f"{test.name} has the same limit on {arm['name']} as on {outlook.baseline}"
                    f" ({ours.name}, {size})"
                )
    return _guard(
        "arms_cannot_differ",
        bool(told),
        f"{'; '.join(told)}: when both reach it, no difference can show"
        if told
        else "no test has the same documented limit on arms of different placement",
        "use a larger instance type, or read these results as a check of the instance's limit",
    )


def _network_of(arm: Mapping[str, Any]) -> tuple[str, bool]:
    return arm["placement"], arm.get("ena_express", False)


def few_blocks(outlook: Outlook) -> Json:
    """Are there enough blocks for an interval?"""
    few = outlook.blocks < LEAST_BLOCKS
    count = f"{outlook.blocks} block{'' if outlook.blocks == 1 else 's'}"
    return _guard(
        "few_blocks",
        few,
        f"{count}; an interval of 95 % needs {LEAST_BLOCKS}" if few else f"{count} are enough",
        f"ask for {LEAST_BLOCKS} blocks or more",
    )


def one_pair(outlook: Outlook) -> Json:
    """Do the verdicts rest on one pair of nodes of an arm?"""
    pairs: dict[str, set[frozenset[str]]] = {arm["name"]: set() for arm in outlook.arms}
    for item in outlook.items:
        for pair in item.get("pairs", ()):
            pairs[pair["arm"]].add(frozenset((pair["client"], pair["server"])))
    single = [name for name, found in pairs.items() if len(found) < 2]
    least = min((len(found) for found in pairs.values()), default=0)
    return _guard(
        "one_pair",
        bool(single),
        f"{' and '.join(single)}: one pair of nodes, so the claim is about these nodes only"
        if single
        else f"every arm has {least} pairs of nodes or more",
        "for a claim about the placement use the pairing ring, mesh or random, with more nodes",
    )


def confound(outlook: Outlook, guard: str, fact: str, name: str, remedy: str) -> Json:
    """Do the arms differ in something else than what they are to differ in?"""
    values = {
        arm["name"]: sorted({node[fact] for node in arm["nodes"] if node.get(fact)})
        for arm in outlook.arms
    }
    distinct = {value for of_arm in values.values() for value in of_arm}
    if not distinct:
        return _guard(guard, False, f"the nodes do not tell their {name}", "")
    told = "; ".join(f"{arm}: {', '.join(of_arm) or 'unknown'}" for arm, of_arm in values.items())
    trips = len(distinct) > 1
    return _guard(
        guard,
        trips,
        f"nodes differ in their {name} ({told}), which may make a difference by itself"
        if trips
        else f"all nodes have the {name} {distinct.pop()}",
        remedy,
    )


def one_thread(outlook: Outlook) -> Json:
    """Tests that may be too fast for an iperf3 with one thread for all streams, before 3.16."""
    fast = sorted(
        {
            test.name
            for test in outlook.tests
            for arm in outlook.arms
            if test.tool == "iperf3"
            and (bound := limit_for(arm, test)) is not None
            and bound.bits_per_second > ONE_THREAD_BITS_PER_SECOND
        }
    )
    size = bit_rate(ONE_THREAD_BITS_PER_SECOND)
    return _guard(
        "one_thread",
        bool(fast),
        f"{', '.join(fast)} may come to more than {size}; before 3.16 iperf3 has one thread for all"
        " its streams"
        if fast
        else f"no test of iperf3 may come to more than {size}",
        "see that the tool image has iperf3 3.16 or later, or use iperf; marks will tell if a CPU"
        " was the limit",
    )


def placeholder_nodes(outlook: Outlook) -> Json:
    """Does the plan rest on nodes that are not there yet?"""
    there = [
        node.get("instance_id") or node.get("kubernetes")
        for a in outlook.arms
        for node in a["nodes"]
    ]
    missing = there.count(None)
    return _guard(
        "placeholder_nodes",
        missing > 0,
        f"{missing} nodes are not there yet, since the stack idles without any; their number and"
        " type are taken from the node groups, the rest is not known"
        if missing
        else "all nodes are there",
        "nothing to do: a run wakes the nodes and plans anew with what is there",
    )
