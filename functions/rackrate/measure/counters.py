"""The counters of a node's network interfaces: the kernel's traffic, and ENA's allowances. Pure.

The inputs are the texts of `/proc/net/dev` and of `ethtool --statistics`. ENA's driver counts the
packets that EC2 queued or dropped because the instance exceeded an allowance (EC2 user guide,
"Monitor network performance for ENA settings on your EC2 instance").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackrate.document import Document

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
_STATISTIC = re.compile(r"\s*(?P<name>[\w.\[\] -]+?)\s*:\s*(?P<value>[0-9]+)\s*", re.ASCII)


#: By node, interface and counter.
Counts = dict[str, dict[str, dict[str, int]]]


class Counters(Document):
    """counters.json: what the nodes' interfaces had counted before the trials and after them."""

    before: Counts
    after: Counts
    note: str | None
    """What was not read."""

    @classmethod
    def not_read(cls) -> Counters:
        """The value that is stored until the nodes are read, so that the object always exists."""
        return cls(before={}, after={}, note="not read before the trials")


class Unreadable(ValueError):
    """A text does not have the expected format."""


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
        raise Unreadable(f"not /proc/net/dev: {net_dev[:80]!r}")
    found: dict[str, dict[str, int]] = {}
    for line in rest.splitlines()[1:]:
        name, colon, numbers = line.rpartition(":")
        columns = numbers.split()
        if not colon or len(columns) != _COLUMN_COUNT or not all(map(_is_count, columns)):
            raise Unreadable(f"not a line of /proc/net/dev: {line[:160]!r}")
        if not _VIRTUAL.fullmatch(name.strip()):
            counts = {counter: int(columns[at]) for counter, at in _COLUMNS.items()}
            found[name.strip()] = counts
    return found


def allowances(statistics: str) -> dict[str, int]:
    """How many packets an ENA interface held back, by `ALLOWANCES`; empty for other drivers.

    Args:
        statistics: the output of `ethtool --statistics <interface>`.
    """
    found = {}
    for line in statistics.splitlines():
        match = _STATISTIC.fullmatch(line)
        if match and match["name"] in ALLOWANCES:
            found[match["name"]] = int(match["value"])
    return found


def _is_count(text: str) -> bool:
    # The kernel's counters have 64 bits, which is at most 20 digits.
    return text.isascii() and text.isdecimal() and len(text) <= 20
