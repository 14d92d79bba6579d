"""Address blocks of nodes: every node has its own, and gives it back when it ends."""

from __future__ import annotations

import ipaddress
import threading

from lab.aws.eks.infrastructure import NodeLaunchError

_PREFIX = 26


class AddressBlocks:
    """The blocks of all subnets, taken and free."""

    def __init__(self) -> None:
        self._taken: dict[str, set[int]] = {}
        self._cursors: dict[str, int] = {}
        self._lock = threading.Lock()

    def allocate(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        """Take a free /26 of the subnet; the first is left for the addresses that AWS reserves."""
        subnet = ipaddress.IPv4Network(subnet_cidr)
        room = 1 << max(_PREFIX - subnet.prefixlen, 0)
        with self._lock:
            taken = self._taken.setdefault(subnet_cidr, set())
            start = self._cursors.get(subnet_cidr, 0)
            # In a circle, so that the next node does not get the addresses of one that just ended.
            candidates = (1 + (start + step) % (room - 1) for step in range(room - 1))
            number = next((one for one in candidates if one not in taken), None)
            if number is None:
                raise NodeLaunchError(
                    f"Subnet {subnet_cidr} has room for {room - 1} nodes of the lab (a /26 each): "
                    "use a wider subnet."
                )
            taken.add(number)
            self._cursors[subnet_cidr] = number
        size = 1 << (32 - _PREFIX)
        return ipaddress.IPv4Network((int(subnet.network_address) + number * size, _PREFIX))

    def release(self, block: ipaddress.IPv4Network) -> None:
        """Let another node have the block. Safe to call twice."""
        with self._lock:
            for subnet_cidr, taken in self._taken.items():
                subnet = ipaddress.IPv4Network(subnet_cidr)
                if block.subnet_of(subnet):
                    offset = int(block.network_address) - int(subnet.network_address)
                    taken.discard(offset // block.num_addresses)
