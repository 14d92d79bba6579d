"""Address blocks of nodes: every node has its own, and a node that ends gives its own back."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from lab.aws.substrate import NodeLaunchError
from lab.eks.backend import Backend
from lab.eks.control_plane import Programs

SUBNET = "100.64.0.0/24"  # four blocks, the first of which is AWS's


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    programs = Programs(kubernetes=tmp_path, debian=tmp_path)
    return Backend(programs, tmp_path, tmp_path, 6440, 0.1)


def test_blocks_are_in_the_subnet_and_apart(backend: Backend) -> None:
    blocks = [backend.allocate_block(SUBNET) for _ in range(3)]
    assert len(set(blocks)) == 3
    subnet = ipaddress.IPv4Network(SUBNET)
    assert all(block.subnet_of(subnet) and block.prefixlen == 26 for block in blocks)
    assert subnet.network_address not in [block.network_address for block in blocks]


def test_a_full_subnet_says_so_until_a_block_is_given_back(backend: Backend) -> None:
    blocks = [backend.allocate_block(SUBNET) for _ in range(3)]
    with pytest.raises(NodeLaunchError, match="room for 3 nodes"):
        backend.allocate_block(SUBNET)
    backend.release_block(blocks[1])
    backend.release_block(blocks[1])
    assert backend.allocate_block(SUBNET) == blocks[1]
    with pytest.raises(NodeLaunchError):
        backend.allocate_block(SUBNET)


def test_the_address_of_a_node_that_ended_is_not_the_next_ones(backend: Backend) -> None:
    ended = backend.allocate_block(SUBNET)
    backend.release_block(ended)
    assert backend.allocate_block(SUBNET) != ended


def test_a_published_image_is_kept_for_nodes_that_come_later(backend: Backend) -> None:
    backend.publish_image("1.dkr.ecr.example.com/tools:1")
    backend.publish_image("1.dkr.ecr.example.com/tools:1")
    assert backend.published() == ["1.dkr.ecr.example.com/tools:1"]
