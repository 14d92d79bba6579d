"""Facts of the nodes' network cards: drivers, ENA Express, tracked connections. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rackrate.measure.counters import CONNTRACK_AVAILABLE, SRD_MODE, SRD_UTILIZATION, Counters
from rackrate_contract.arms import Arm, Node
from rackrate_text.units import percent
from rackrate_text.words import counted, listed

#: With fewer tracked connections left than this, a node may soon refuse new ones. rackrate's own
#: threshold: EC2 documents that packets of connections beyond the allowance are dropped, and no
#: number.
FEW_CONNECTIONS = 1000
#: ENA Express is expected to carry this share of the packets that are eligible. EC2's guide says to
#: ignore minor differences; "significant differences [...] are often caused by resource utilization
#: issues", or by packets over the limit of the MTU
#: (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html).
LEAST_SHARE = 0.90
#: The largest MTU with which ENA Express can carry every packet, in bytes
#: (https://github.com/amzn/amzn-ec2-ena-utilities, ena-express/check-ena-express-settings.sh).
ENA_EXPRESS_MTU = 8900

_MODE_OFF = (0, 2)
_NODES_NAMED = 3


@dataclass(frozen=True)
class Defect:
    """A version of a driver that is known to be broken.

    Attributes:
        driver: the driver's name.
        version: its version, without the letter that names the origin of a build.
        symptom: what happens.
        remedy: what to do.
        source: the pages that say so.
        since: the day from which on they do, ISO 8601.
    """

    driver: str
    version: str
    symptom: str
    remedy: str
    source: str
    since: str

    def concerns(self, driver: str, version: str | None) -> bool:
        """Whether an interface has this driver."""
        pattern = rf"{re.escape(self.version)}[a-zA-Z]*"
        return driver == self.driver and re.fullmatch(pattern, version or "") is not None


#: amazon-eks-ami's pull request 2757 of 2026-07-07 pins its images to the last release with
#: ENA 2.16.1g, because "latest AL2023 base AMIs ship a broken ENA driver". The driver's maintainers
#: name the defect and the version that mends it.
DEFECTS = (
    Defect(
        driver="ena",
        version="2.17.0",
        symptom="a node can crash and restart when a network interface is detached from it",
        remedy="use an AMI with ENA 2.17.2 or later, or with 2.16.1",
        source="https://github.com/amzn/amzn-drivers/issues/380",
        since="2026-08-23",
    ),
)


@dataclass(frozen=True)
class _Fact:
    called: str
    of: Callable[[Node], str | None]
    remedy: str


_FACTS = (
    _Fact("network driver", lambda node: node.drivers, "bring them to one release of the AMI"),
    _Fact("MTU", lambda node: node.mtus, "set one MTU for all nodes"),
    _Fact("network queues", lambda node: node.queues, "use one instance type and one setting"),
)


def network_card_warnings(arms: Sequence[Arm], counters: Counters | None) -> list[str]:
    """Sentences, without their periods, on what makes a run's network another than it seems.

    Args:
        arms: the run's arms, with their nodes' interfaces and their use of ENA Express.
        counters: the nodes' counters, or None when they were not read.
    """
    warnings = [*filter(None, (_differing(arms, fact) for fact in _FACTS)), *_defects(arms)]
    if counters is not None:
        warnings += filter(None, (_little_used(arm, counters) for arm in arms))
    return warnings


def _differing(arms: Sequence[Arm], fact: _Fact) -> str | None:
    values = {arm.name: sorted({fact.of(node) or "unknown" for node in arm.nodes}) for arm in arms}
    known = {value for of_arm in values.values() for value in of_arm} - {"unknown"}
    if len(known) < 2:
        return None
    by_arm = "; ".join(f"{arm}: {', '.join(of_arm)}" for arm, of_arm in values.items())
    return (
        f"nodes differ in their {fact.called} ({by_arm}), which may make a difference by itself;"
        f" {fact.remedy}"
    )


def _defects(arms: Sequence[Arm]) -> list[str]:
    nodes = {node.name: node for arm in arms for node in arm.nodes}
    warnings = []
    for defect in DEFECTS:
        ill = [name for name, node in sorted(nodes.items()) if _has(node, defect)]
        if ill:
            warnings.append(
                f"{counted(len(ill), 'node')} ({listed(ill, most=_NODES_NAMED)}) had version"
                f" {defect.version} of the driver {defect.driver}: {defect.symptom};"
                f" {defect.remedy} ({defect.source}, {defect.since})"
            )
    return warnings


def _has(node: Node, defect: Defect) -> bool:
    return any(
        each.driver is not None and defect.concerns(each.driver, each.driver_version)
        for each in (node.interfaces or {}).values()
    )


# -- ENA Express


def _little_used(arm: Arm, counters: Counters) -> str | None:
    """Why an arm did not use its ENA Express, or used it for a part of what it could."""
    use = arm.ena_express_use
    if use is None:
        return None
    if use.sent == 0:
        return (
            f"ENA Express was switched on in {arm.name} but not used: its nodes sent no packet by"
            f" it, so the limits without it apply; {_why_unused(arm, counters, use.eligible)}"
        )
    if use.share is not None and use.share < LEAST_SHARE:
        return (
            f"{arm.name} sent {percent(use.share)} of the packets by ENA Express that could have"
            f" gone by it; {_why_not_all(arm, counters)}"
        )
    return None


def _why_unused(arm: Arm, counters: Counters, eligible: int) -> str:
    off = [
        node
        for node in arm.node_names
        if any(mode in _MODE_OFF for mode in counters.gauges(node, SRD_MODE))
    ]
    if off:
        names = listed(off, most=_NODES_NAMED)
        return f"it is off on {names} ({SRD_MODE}), so switch it on for their interfaces"
    if eligible == 0:
        return (
            "no packet was eligible: the pods must use the nodes' first interfaces, both ends need"
            " ENA Express, and nothing may lie between them"
        )
    return _why_not_all(arm, counters)


def _why_not_all(arm: Arm, counters: Counters) -> str:
    large = sorted(
        {
            each.mtu
            for node in arm.nodes
            for each in (node.interfaces or {}).values()
            if each.mtu is not None and each.mtu > ENA_EXPRESS_MTU
        }
    )
    if large:
        return (
            f"the MTU is {listed([str(mtu) for mtu in large])}, and ENA Express needs"
            f" {ENA_EXPRESS_MTU} or less"
        )
    used = [value for n in arm.node_names for value in counters.gauges(n, SRD_UTILIZATION)]
    utilization = f", which came to {max(used)} %" if used else ""
    return f"packets over the limit of the MTU and a lack of its resources{utilization} prevent it"


def unused_express_notes(arms: Sequence[Arm], counters: Counters | None) -> dict[str, str]:
    """A sentence for each node that had ENA Express and did not use it, by node."""
    if counters is None:
        return {}
    return {
        node: f"{node} had ENA Express switched on and sent nothing by it"
        for arm in arms
        if arm.ena_express
        for node in arm.node_names
        if counters.sent_by_ena_express(node) == 0
    }


# -- tracked connections


def few_connections_notes(counters: Counters | None) -> dict[str, str]:
    """A sentence for each node that could track few more connections, by node."""
    notes: dict[str, str] = {}
    if counters is None:
        return notes
    for node in sorted({*counters.before, *counters.after}):
        left = min(counters.gauges(node, CONNTRACK_AVAILABLE), default=FEW_CONNECTIONS)
        if left < FEW_CONNECTIONS:
            notes[node] = (
                f"on {node} EC2 could track only {counted(left, 'more connection')}"
                f" ({CONNTRACK_AVAILABLE}): it drops the packets of those beyond"
            )
    return notes
