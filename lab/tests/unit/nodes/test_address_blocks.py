"""Address blocks of nodes: each node has its own, and returns it when it ends."""

from __future__ import annotations

import ipaddress

import pytest

from lab.aws.eks.infrastructure import NodeLaunchError
from lab.nodes.address_blocks import AddressBlocks

SUBNET = "100.64.0.0/24"  # four blocks; AWS reserves the first


def test_blocks_are_in_the_subnet_and_apart() -> None:
    blocks = AddressBlocks()
    allocated = [blocks.allocate(SUBNET) for _ in range(3)]
    assert len(set(allocated)) == 3
    subnet = ipaddress.IPv4Network(SUBNET)
    assert all(block.subnet_of(subnet) and block.prefixlen == 26 for block in allocated)
    assert subnet.network_address not in [block.network_address for block in allocated]


def test_a_full_subnet_says_so_until_a_block_is_given_back() -> None:
    blocks = AddressBlocks()
    allocated = [blocks.allocate(SUBNET) for _ in range(3)]
    with pytest.raises(NodeLaunchError, match="room for 3 nodes"):
        blocks.allocate(SUBNET)
    blocks.release(allocated[1])
    blocks.release(allocated[1])
    assert blocks.allocate(SUBNET) == allocated[1]
    with pytest.raises(NodeLaunchError):
        blocks.allocate(SUBNET)


def test_the_address_of_a_node_that_ended_is_not_the_next_ones() -> None:
    blocks = AddressBlocks()
    ended = blocks.allocate(SUBNET)
    blocks.release(ended)
    assert blocks.allocate(SUBNET) != ended
