"""The guards: warnings about a plan before anything is measured. Pure.

Each guard reports its finding, whether it would trip, and a remedy. Guards that would not trip are
reported too, so that a reader knows what was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rackrate.plan.ceilings import limit_for
from rackrate.plan.fields import LEAST_BLOCKS, LEAST_PAIRS
from rackrate.plan.items import Item, block_items
from rackrate.plan.workloads import pair_tests, places, workloads
from rackrate.tools.base import TestBase
from rackrate_contract.arms import Arm, Node
from rackrate_contract.estimates import Guard
from rackrate_text.units import duration, quantity, ratio
from rackrate_text.words import counted, listed

#: Above this a single thread may be too slow for iperf3: "iperf does not reach full speed on fast
#: network connection such as 40 Gbps or 100 Gbps" (https://access.redhat.com/solutions/4486291).
ONE_THREAD_BITS_PER_SECOND = 40e9


#: The guard whose finding is a warning of the result too.
UNKNOWN_TYPES = "unknown_types"


@dataclass(frozen=True)
class Confound:
    """A fact about nodes that should be the same in all arms.

    Attributes:
        guard: the guard's name.
        called: the fact's name in messages.
        of: returns the fact of a node.
        remedy: what to do if arms differ.
        intended: why an arm differs because the plan asks for it, and None for other arms.
    """

    guard: str
    called: str
    of: Callable[[Node], str | None]
    remedy: str
    intended: Callable[[Arm], str | None] = lambda _: None


_ONE_RELEASE = "bring all node groups to one release of the AMI"
_CONFOUNDS = (
    Confound(
        "zones",
        "zone",
        lambda node: node.zone,
        "put the nodes of all arms in one zone",
        lambda arm: f"{arm.name} is across zones" if arm.pairs == "across-zones" else None,
    ),
    Confound(
        "instance_types",
        "instance type",
        lambda node: node.instance_type,
        "use one instance type for all arms",
    ),
    Confound("images", "AMI", lambda node: node.image, _ONE_RELEASE),
    Confound("kernels", "kernel", lambda node: node.kernel, _ONE_RELEASE),
    Confound(
        "capacity_types",
        "capacity type",
        lambda node: node.capacity_type,
        "buy the nodes of all arms in one way: all on demand, or all as spot instances",
    ),
    Confound(
        "tenancies",
        "tenancy",
        lambda node: node.tenancy,
        "use one tenancy for all arms",
    ),
)


@dataclass(frozen=True)
class Outlook:
    """The planned run, as input to the guards.

    Attributes:
        arms: the plan's arms with their nodes.
        baseline: the baseline's name.
        tests: the plan's tests.
        blocks: the number of blocks.
        items: the schedule.
        seconds: the run's expected duration.
        most_bytes_of_node: the most bytes that each node sends or receives, whichever is more.
        load_nodes: the nodes of the load of workloads, besides the arms' own.
    """

    arms: Sequence[Arm]
    baseline: str
    tests: Sequence[TestBase]
    blocks: int
    items: Sequence[Item]
    seconds: float
    most_bytes_of_node: Mapping[str, int]
    load_nodes: Sequence[Node] = ()

    @property
    def baseline_arm(self) -> Arm:
        """The arm that the others are compared with."""
        return next(arm for arm in self.arms if arm.name == self.baseline)


def planned_guards(outlook: Outlook) -> list[Guard]:
    """Every guard, whether it would trip or not."""
    return [
        burst_credits(outlook),
        arms_cannot_differ(outlook),
        few_blocks(outlook),
        few_pairs(outlook),
        *(confound(outlook, about) for about in _CONFOUNDS),
        unknown_types(outlook),
        one_thread(outlook),
        placements(outlook),
        topology(outlook),
        placeholder_nodes(outlook),
        *([one_placement(outlook), source_of_load(outlook)] if workloads(outlook.tests) else []),
    ]


def _guard(name: str, would_trip: bool, text: str, remedy: str) -> Guard:
    return Guard(guard=name, would_trip=would_trip, text=text, remedy=remedy if would_trip else "")


def burst_credits(outlook: Outlook) -> Guard:
    """Warn if a node's mean rate over the run exceeds what its instance sustains.

    Bandwidth applies to each direction separately. Instances get all their credits at launch, earn
    credits below their baseline and spend them above it. A burst lasts "typically from 5 to 60
    minutes, depending on the instance size", and the number of credits is not documented
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html). So
    the guard uses the mean rate over the whole run, including pauses.
    """
    worst: tuple[float, str, float, float] | None = None
    known = False
    for arm in outlook.arms:
        baseline = arm.network.baseline_bits_per_second
        known = known or (baseline is not None and arm.network.peak_bits_per_second is not None)
        if not arm.network.bursts or baseline is None or outlook.seconds <= 0:
            continue
        sustained = baseline * arm.scale
        for name in arm.node_names:
            rate = outlook.most_bytes_of_node.get(name, 0) * 8 / outlook.seconds
            if worst is None or rate / sustained > worst[0]:
                worst = (rate / sustained, name, rate, sustained)
    if worst is None:
        text = "the instances have no burst" if known else "what the instances sustain is not known"
        return _guard("burst_credits", False, text, "")
    share, node_name, rate, sustained = worst
    text = (
        f"{node_name} may come to {quantity(rate, 'bit/s')} one way on the mean of the run,"
        f" {ratio(share)} times the {quantity(sustained, 'bit/s')} its instance sustains"
    )
    excess = (rate - sustained) * outlook.seconds / 8
    if excess > 0:
        text += (
            f", which takes {quantity(excess, 'B')} out of its burst; bursts last 5 to 60 minutes,"
            f" and this is to take {duration(outlook.seconds)}"
        )
    return _guard(
        "burst_credits",
        share > 1,
        text,
        "ask for fewer blocks or shorter tests, limit the tests' rate, or use an instance type"
        " without a burst; marks will tell if the burst ends",
    )


def arms_cannot_differ(outlook: Outlook) -> Guard:
    """Warn about tests in which arms of different placement have the same limit."""
    baseline = outlook.baseline_arm
    same = []
    for test in outlook.tests:
        theirs = limit_for(baseline, test)
        for arm in outlook.arms:
            ours = limit_for(arm, test)
            alike = (arm.placement, arm.ena_express) == (baseline.placement, baseline.ena_express)
            if alike or ours is None or theirs is None:
                continue
            if ours.bits_per_second == theirs.bits_per_second:
                size = quantity(ours.bits_per_second, "bit/s")
                same.append(
                    f"{test.name} has the same limit on {arm.name} as on {outlook.baseline}"
                    f" ({ours.name}, {size})"
                )
    return _guard(
        "arms_cannot_differ",
        bool(same),
        f"{'; '.join(same)}: when both reach it, no difference can show"
        if same
        else "no test has the same documented limit on arms of different placement",
        "use a larger instance type, or read these results as a check of the instance's limit",
    )


def few_blocks(outlook: Outlook) -> Guard:
    """Warn if there are too few blocks for a 95 % interval."""
    few = outlook.blocks < LEAST_BLOCKS
    count = counted(outlook.blocks, "block")
    return _guard(
        "few_blocks",
        few,
        f"{count}; an interval of 95 % needs {LEAST_BLOCKS}" if few else f"{count} are enough",
        f"ask for {LEAST_BLOCKS} blocks or more",
    )


def few_pairs(outlook: Outlook) -> Guard:
    """Warn if an arm has too few pairs of nodes for more than a claim about these nodes."""
    if endpoints := listed({arm.endpoint.words: None for arm in outlook.arms if arm.endpoint}):
        text = f"verdicts on arms towards {endpoints} are about these nodes and {endpoints} only"
        return _guard("few_pairs", False, text, "")
    pairs: dict[str, set[frozenset[str]]] = {arm.name: set() for arm in outlook.arms}
    if not pair_tests(outlook.tests):
        return _guard("few_pairs", False, "there is no test of pairs of nodes", "")
    for item in block_items(outlook.items):
        if item.workload is not None:
            continue
        for pair in item.pairs:
            pairs[pair.arm].add(frozenset((pair.client, pair.server)))
    few = {name: len(of_arm) for name, of_arm in pairs.items() if len(of_arm) < LEAST_PAIRS}
    counts = listed(f"{name} has {counted(n, 'pair')} of nodes" for name, n in few.items())
    least = min((len(of_arm) for of_arm in pairs.values()), default=0)
    return _guard(
        "few_pairs",
        bool(few),
        f"{counts}: with fewer than {LEAST_PAIRS} a verdict is about these nodes only"
        if few
        else f"every arm has {counted(least, 'pair')} of nodes or more, so a verdict also shows an"
        " interval for this stack's placement; the fewer the pairs, the wider it is",
        f"for an interval for this stack's placement measure {LEAST_PAIRS} pairs or more of every"
        " arm: use the pairing ring, mesh or random, with more nodes",
    )


def confound(outlook: Outlook, about: Confound) -> Guard:
    """Warn if nodes differ in a fact other than their placement."""
    values = {
        arm.name: sorted(filter(None, {about.of(node) for node in arm.nodes}))
        for arm in outlook.arms
        if about.intended(arm) is None
    }
    distinct = {value for of_arm in values.values() for value in of_arm}
    if intended := listed(filter(None, map(about.intended, outlook.arms))):
        intended = f"{intended}, as the plan asks"
    if not distinct and intended:
        return _guard(about.guard, False, intended, "")
    if not distinct:
        return _guard(about.guard, False, f"the nodes do not tell their {about.called}", "")
    by_arm = "; ".join(f"{arm}: {', '.join(of_arm) or 'unknown'}" for arm, of_arm in values.items())
    trips = len(distinct) > 1
    summary = (
        f"nodes differ in their {about.called} ({by_arm}), which may make a difference by itself"
        if trips
        else f"all {'other ' if intended else ''}nodes have the {about.called} {distinct.pop()}"
    )
    return _guard(about.guard, trips, "; ".join(filter(None, (summary, intended))), about.remedy)


def unknown_types(outlook: Outlook) -> Guard:
    """Warn if EC2 does not know the type that a node reports, so that its limits are unknown."""
    types = sorted({name for arm in outlook.arms for name in arm.network.unknown_types})
    return _guard(
        UNKNOWN_TYPES,
        bool(types),
        f"EC2 does not know the instance type {listed(types, most=3)} that nodes tell, so the"
        " limits of their instances are unknown"
        if types
        else "EC2 knows every instance type that nodes tell",
        "correct the label node.kubernetes.io/instance-type, or leave such nodes out",
    )


def one_thread(outlook: Outlook) -> Guard:
    """Warn about tests that may be too fast for tools with one thread for all streams."""
    fast = {
        test.name: test.one_thread
        for test in outlook.tests
        if test.one_thread is not None
        and any(
            (bound := limit_for(arm, test)) is not None
            and bound.bits_per_second > ONE_THREAD_BITS_PER_SECOND
            for arm in outlook.arms
        )
    }
    size = quantity(ONE_THREAD_BITS_PER_SECOND, "bit/s")
    return _guard(
        "one_thread",
        bool(fast),
        f"{listed(sorted(fast))} may come to more than {size}; {_each_once(fast, 0)}"
        if fast
        else f"no test whose tool may have a single thread may come to more than {size}",
        f"{_each_once(fast, 1)}; marks will tell if a CPU was the limit",
    )


def _each_once(about: Mapping[str, tuple[str, str]], part: int) -> str:
    return "; ".join(dict.fromkeys(words[part] for words in about.values()))


def placements(outlook: Outlook) -> Guard:
    """Warn if EC2 did not say whether nodes are in the placement group that their arm claims."""
    nodes = _nodes_there(outlook)
    unknown = [n.name for n in nodes if n.ec2_placement is None]
    unsure = [
        n.name
        for n in nodes
        if n.ec2_placement is not None
        and n.ec2_placement.group is not None
        and not n.ec2_placement.strategy
    ]
    text = "EC2 says that every node is in the placement group that its arm claims, or in none"
    if unknown:
        text = (
            f"EC2 did not say where {counted(len(unknown), 'node')} of {len(nodes)} are, so nothing"
            " shows that their placement is what their arm claims"
        )
    elif unsure:
        text = (
            f"EC2 did not say which strategy the group of {counted(len(unsure), 'node')} has, so"
            " nothing shows that it is what their arm claims"
        )
    return _guard(
        "placements",
        bool(unknown or unsure),
        text if nodes else "no node is there yet",
        "let the role of the plan function call ec2:DescribeInstances and"
        " ec2:DescribePlacementGroups, and look for its warnings in the log",
    )


def topology(outlook: Outlook) -> Guard:
    """Say where the nodes' location in EC2's network is known. It never trips."""
    nodes = _nodes_there(outlook)
    without = [node for node in nodes if node.network_layers == ()]
    unknown = [node for node in nodes if node.network_layers is None]
    states = []
    if len(without) + len(unknown) < len(nodes):
        states.append(f"known for {len(nodes) - len(without) - len(unknown)} of {len(nodes)} nodes")
    if without:
        types = sorted({node.instance_type or "instances of an unknown type" for node in without})
        states.append(f"EC2 reports no topology for {listed(types)}")
    if unknown:
        states.append(f"EC2 did not answer for {counted(len(unknown), 'node')}")
    return _guard("topology", False, "; ".join(states) or "no node is there yet", "")


def _nodes_there(outlook: Outlook) -> list[Node]:
    """The nodes that exist, each once."""
    nodes = {node.name: node for arm in outlook.arms for node in arm.nodes}
    return [node for node in nodes.values() if not node.is_placeholder]


def placeholder_nodes(outlook: Outlook) -> Guard:
    """Warn if the plan uses placeholders for nodes that do not exist yet."""
    missing = sum(node.is_placeholder for arm in outlook.arms for node in arm.nodes)
    return _guard(
        "placeholder_nodes",
        missing > 0,
        f"{missing} nodes are not there yet; NodeCount is their number, node groups tell their"
        " type, and the rest is not known"
        if missing
        else "all nodes are there",
        "nothing to do: a run wakes the nodes and plans anew with what is there",
    )


def one_placement(outlook: Outlook) -> Guard:
    """Say that a workload is measured in one placement. It always trips."""
    names = listed(test.name for test in workloads(outlook.tests))
    return _guard(
        "one_placement",
        True,
        f"{names}: the members of an arm are in one placement, so a verdict is about these nodes",
        "for a claim about the placement group run the plan as a campaign of draws",
    )


def source_of_load(outlook: Outlook) -> Guard:
    """Say where the load of workloads comes from. It trips if its zone is another."""
    if not outlook.load_nodes:
        text = "the load of workloads comes from nodes of each arm itself, which hold no member"
        return _guard("source_of_load", False, text, "")
    used = {
        name
        for test in workloads(outlook.tests)
        for arm in outlook.arms
        for name in places(test, arm, outlook.load_nodes).loaders
    }
    zones = {node.zone for node in outlook.load_nodes if node.name in used}
    others = {node.zone for arm in outlook.arms for node in arm.nodes}
    trips = None not in zones | others and not zones <= others
    return _guard(
        "source_of_load",
        trips,
        f"the load of workloads comes from {counted(len(used), 'load node')}, the same for all arms"
        + (f", in {listed(sorted(filter(None, zones)))}" if trips else ""),
        "put the load nodes into the zone of the arms' nodes",
    )
