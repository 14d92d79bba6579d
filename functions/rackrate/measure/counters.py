"""The counters of a node's network interfaces: the kernel's traffic, and ENA's own. Pure.

The inputs are the texts of `/proc/net/dev` and of `ethtool --statistics`. ENA's driver counts the
packets that EC2 queued or dropped because the instance exceeded an allowance, and those that went
by ENA Express
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from pydantic import Field

from rackrate.foreign import plain
from rackrate.measure.interfaces import Unreadable
from rackrate_contract.arms import Arm, EnaExpressUse, Interface
from rackrate_contract.document import Document

#: The programs that read ENA's counters, each with its Debian package.
PROGRAMS: Mapping[str, str] = {"ethtool": "ethtool"}
#: Counters of packets beyond an allowance: inbound and outbound bandwidth, packets per second,
#: tracked connections, and packets to link-local services.
ALLOWANCES = (
    "bw_in_allowance_exceeded",
    "bw_out_allowance_exceeded",
    "pps_allowance_exceeded",
    "conntrack_allowance_exceeded",
    "linklocal_allowance_exceeded",
)

#: Packets that left by ENA Express (SRD), that could have, and that came by it.
SRD_SENT, SRD_ELIGIBLE, SRD_RECEIVED = (
    "ena_srd_tx_pkts",
    "ena_srd_eligible_tx_pkts",
    "ena_srd_rx_pkts",
)
#: Whether ENA Express is on: 1 for TCP, 3 for UDP too, otherwise off.
SRD_MODE = "ena_srd_mode"
#: How much of the memory for connections by ENA Express is used, in percent.
SRD_UTILIZATION = "ena_srd_resource_utilization"
#: How many more connections EC2 can track for the instance.
CONNTRACK_AVAILABLE = "conntrack_allowance_available"
#: Values that rise and fall. Their difference between two readings means nothing.
GAUGES = (SRD_MODE, SRD_UTILIZATION, CONNTRACK_AVAILABLE)
_ENA = frozenset({*ALLOWANCES, SRD_SENT, SRD_ELIGIBLE, SRD_RECEIVED, *GAUGES})

# Interfaces that do not leave the node: those of the VPC CNI (`eni` and eleven digits, `dummy0`,
# `vlan.eth.1`, `pod-id-link0`), Calico, Cilium, flannel, kube-proxy in IPVS mode, the node-local
# DNS cache, container engines and tunnels.
_VIRTUAL = re.compile(
    r"lo|eni[0-9a-f]{11}|(veth|cali|cni|dummy|vlan|pod-id-link|kube-|nodelocaldns|docker|br-|virbr"
    r"|cilium|lxc|flannel|tun|tap|wg|vxlan|geneve|ifb|gre|gretap|erspan|sit|ip6|tunl|ip_vti|bpf).*"
)
#: The columns of `/proc/net/dev` by the kernel's names (net/core/net-procfs.c).
_COLUMNS: Mapping[str, int] = {
    "rx_bytes": 0,
    "rx_packets": 1,
    "rx_dropped": 3,
    "tx_bytes": 8,
    "tx_packets": 9,
    "tx_dropped": 11,
}
_COLUMN_COUNT = 16
#: Names of interfaces have at most 15 bytes. Programs that get one as an argument must not take it
#: for an option or a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}", re.ASCII)
#: More interfaces than an instance has network cards and attachments.
_MOST_INTERFACES = 64


#: The name of the run's object that has them.
NAME = "counters.json"
#: By node, interface and counter.
Counts = dict[str, dict[str, dict[str, int]]]


class Counters(Document):
    """counters.json: what the nodes' interfaces had counted before the trials and after them."""

    before: Counts
    after: Counts
    interfaces: dict[str, dict[str, Interface]] = Field(default_factory=dict)
    """What the interfaces were before the trials, by node and name."""
    note: str | None
    """What was not read."""

    @classmethod
    def not_read(cls) -> Counters:
        """The value that is stored until the nodes are read, so that the object always exists."""
        return cls(before={}, after={}, note="not read before the trials")

    def describe(self, arms: Iterable[Arm]) -> tuple[Arm, ...]:
        """The arms with what was read: their nodes' interfaces, and their use of ENA Express."""
        return tuple(
            arm.model_copy(
                update={
                    "nodes": tuple(
                        node.model_copy(update={"interfaces": self.interfaces.get(node.name)})
                        for node in arm.nodes
                    ),
                    "ena_express_use": self._ena_express_use(arm) if arm.ena_express else None,
                }
            )
            for arm in arms
        )

    def sent_by_ena_express(self, node: str) -> int | None:
        """How many packets a node sent by ENA Express; None unless it was read twice."""
        return self._risen(node, SRD_SENT)

    def _risen(self, node: str, name: str) -> int | None:
        before, after = self.before.get(node), self.after.get(node)
        if not before or not after or not any(name in counts for counts in after.values()):
            return None
        return risen(before, after, {name}).get(name, 0)

    def _ena_express_use(self, arm: Arm) -> EnaExpressUse | None:
        """What an arm's nodes sent by ENA Express; None unless all of them were read twice."""
        sent = [self.sent_by_ena_express(node) for node in arm.node_names]
        eligible = [self._risen(node, SRD_ELIGIBLE) for node in arm.node_names]
        if None in sent or None in eligible:
            return None
        return EnaExpressUse(sent=sum(filter(None, sent)), eligible=sum(filter(None, eligible)))

    def gauges(self, node: str, name: str) -> list[int]:
        """All readings of a gauge on a node: of its interfaces, before the trials and after."""
        readings = [*self.before.get(node, {}).values(), *self.after.get(node, {}).values()]
        return [counts[name] for counts in readings if name in counts]


def traffic(net_dev: str) -> dict[str, dict[str, int]]:
    """Bytes, packets and drops of each interface that leaves the node.

    Args:
        net_dev: the text of `/proc/net/dev`.

    Returns:
        Interface to counter: `rx_bytes`, `rx_packets`, `rx_dropped`, and the same with `tx_`.

    Raises:
        Unreadable: the text has another format.
    """
    header, _, rest = net_dev.partition("\n")
    if not header.startswith("Inter-|"):
        raise Unreadable(f"not /proc/net/dev: {plain(net_dev, 80)!r}")
    counters: dict[str, dict[str, int]] = {}
    for line in rest.splitlines()[1:]:
        name, colon, numbers = line.rpartition(":")
        columns = numbers.split()
        if not colon or len(columns) != _COLUMN_COUNT or not all(map(_is_count, columns)):
            raise Unreadable(f"not a line of /proc/net/dev: {plain(line, 160)!r}")
        if not _NAME.fullmatch(interface := name.strip()):
            raise Unreadable(f"not the name of an interface: {plain(interface, 80)!r}")
        if not _VIRTUAL.fullmatch(interface):
            counters[interface] = {counter: int(columns[at]) for counter, at in _COLUMNS.items()}
    if len(counters) > _MOST_INTERFACES:
        raise Unreadable(f"{len(counters)} interfaces, more than the {_MOST_INTERFACES} of a node")
    return counters


def ena(statistics: str) -> dict[str, int]:
    """What ENA's driver reports on an interface beside its traffic; empty for other drivers.

    Args:
        statistics: the output of `ethtool --statistics <interface>`.

    Returns:
        `ALLOWANCES`, the counters of ENA Express and `GAUGES`, as far as the driver has them. It
        has had ENA Express's since 2.8, and `conntrack_allowance_available` since 2.8.1.
    """
    counters = {}
    for line in statistics.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in _ENA and _is_count(value):
            counters[name] = int(value)
    return counters


def risen(
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
    names: Set[str],
) -> dict[str, int]:
    """The increase of a node's counters, summed over its interfaces; only what has risen.

    An interface that was added meanwhile counts from zero. A counter that fell was reset, and has
    counted at least its present value.

    Args:
        before: the first reading, by interface and counter.
        after: the second reading.
        names: the counters.
    """
    total: dict[str, int] = defaultdict(int)
    for interface, counts in after.items():
        for name in names & counts.keys():
            count, at_first = counts[name], before.get(interface, {}).get(name, 0)
            total[name] += count - at_first if count >= at_first else count
    return {name: count for name, count in total.items() if count > 0}


def _is_count(text: str) -> bool:
    # The kernel's counters have 64 bits, which is at most 20 digits.
    return text.isascii() and text.isdecimal() and len(text) <= 20
