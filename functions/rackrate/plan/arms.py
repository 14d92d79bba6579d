"""The arms as a plan chooses them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackrate.tools.base import NAME_PATTERN
from rackrate_contract.arms import Network, PairZones
from rackrate_contract.document import Document


class ArmChoice(Document):
    """An arm as a plan chooses it: nodes of the stack, and the networks of its pods."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=30, examples=["host-to-pod"])]
    """The arm's name in this run and its results."""
    nodes: Annotated[str, Field(examples=["treatment"])]
    """The stack's arm whose nodes it uses. Arms of a plan may share nodes. They then take turns in
    every block, on the same pairs."""
    client_network: Annotated[Network, Field(examples=["host"])] = "pod"
    """Network of its client pods. `pod`: a network namespace of their own behind the cluster's CNI.
    `host`: the network of the node; the stack needs `HostNetwork=true`."""
    server_network: Annotated[Network, Field(examples=["host"])] = "pod"
    """Network of its server pods, with the same choices."""
    via: Annotated[Literal["pod", "service"], Field(examples=["service"])] = "pod"
    """What its clients connect to. `pod`: the server's own address. `service`: the address of a
    Service, so that kube-proxy's rules are in the path. ping cannot go through a Service."""
    pairs: Annotated[PairZones, Field(examples=["across-zones"])] = "any"
    """Which of its nodes may be a pair. `any`: any two. `within-zone`: two of one Availability
    Zone. `across-zones`: two of different zones, whose traffic AWS bills."""
    endpoint: Annotated[
        str | None, Field(examples=["10.0.3.5:5201"], min_length=1, max_length=60)
    ] = None
    """What its clients connect to outside the cluster. Each of its nodes makes a pair with it, and
    is the client. `instance`: the stack's endpoint instance. Or an IP address that the stack's
    `AllowedEndpoints` contain, with a port if it is not the tool's own (IPv6 then in brackets)."""

    @property
    def is_plain(self) -> bool:
        """Whether it only names an arm of the stack, and every other field has its default."""
        return self == ArmChoice(name=self.nodes, nodes=self.nodes)
