"""Address blocks of nodes: every node has its own, and gives it back when it ends."""

from __future__ import annotations

import ipaddress
import threading

from lab.aws.eks.infrastructure import NodeLaunchError

#: A real node's pods get all addresses of a /26 but a few. Simulated ones have few pods.
PREFIX, SIMULATED_PREFIX = 26, 28


class AddressBlocks:
    """The blocks of all subnets, taken and free; all have the same prefix length."""

    def __init__(self, prefix: int = PREFIX) -> None:
        self._prefix = prefix
        self._taken: dict[str, set[int]] = {}
        self._cursors: dict[str, int] = {}
        self._lock = threading.Lock()

    def allocate(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        """Take a free block of the subnet; the first is left to the addresses that AWS reserves."""
        subnet = ipaddress.IPv4Network(subnet_cidr)
        room = 1 << max(self._prefix - subnet.prefixlen, 0)
        with self._lock:
            taken = self._taken.setdefault(subnet_cidr, set())
            start = self._cursors.get(subnet_cidr, 0)
            # In a circle, so that the next node does not get the addresses of one that just ended.
            candidates = (1 + (start + step) % (room - 1) for step in range(room - 1))
            number = next((one for one in candidates if one not in taken), None)
            if number is None:
                raise NodeLaunchError(
                    f"Subnet {subnet_cidr} has room for {room - 1} nodes of the lab"
                    f" (a /{self._prefix} each): "
                    "use a wider subnet."
                )
            taken.add(number)
            self._cursors[subnet_cidr] = number
        size = 1 << (32 - self._prefix)
        return ipaddress.IPv4Network((int(subnet.network_address) + number * size, self._prefix))

    def release(self, block: ipaddress.IPv4Network) -> None:
        """Let another node have the block. Safe to call twice."""
        with self._lock:
            for subnet_cidr, taken in self._taken.items():
                subnet = ipaddress.IPv4Network(subnet_cidr)
                if block.subnet_of(subnet):
                    offset = int(block.network_address) - int(subnet.network_address)
                    taken.discard(offset // block.num_addresses)
