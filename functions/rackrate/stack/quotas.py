"""Whether the account's quotas have room for what a new stack makes. Pure: facts in, faults out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rackrate.errors import Fault
from rackrate_text.quotas import (
    ELASTIC_ADDRESSES,
    IMAGE_BUILDS,
    NAT_GATEWAYS_PER_ZONE,
    VPCS,
    Vcpus,
    request_command,
    vcpu_quota_name,
)


@dataclass(frozen=True)
class Use:
    """A quota that counts things of which the stack makes one, and how many there are."""

    quota: float
    in_use: int

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return self.in_use + 1 > self.quota


@dataclass(frozen=True)
class Quotas:
    """The quotas that the stack's creation uses. None is one that is not needed, or not known.

    Attributes:
        vcpus: vCPUs of the nodes, by the quotas that count them.
        vpcs: VPCs of the Region.
        addresses: elastic IP addresses of the Region.
        nat_gateways: NAT gateways by zone; a zone that is missing has none.
        nat_gateway_quota: most NAT gateways of a zone.
    """

    vcpus: tuple[Vcpus, ...] = ()
    vpcs: Use | None = None
    addresses: Use | None = None
    nat_gateways: Mapping[str, int] = field(default_factory=dict)
    nat_gateway_quota: float | None = None


def vcpu_faults(use: Vcpus, where: str, *, has_smaller: bool) -> Iterator[Fault]:
    """The fault of nodes whose vCPUs do not fit, with the arithmetic.

    Args:
        use: what counts against a quota.
        where: the parameter with the number of the nodes, or with their type, and its value.
        has_smaller: whether that parameter can be smaller.
    """
    if use.suffices:
        return
    code, parameter = use.code, where.partition(" ")[0]
    type_ = {"NodeCount": "InstanceType", "LoadNodeCount": "LoadInstanceType"}.get(
        parameter, parameter
    )
    has = f", and the stack has {use.of_nodes} of them" if use.of_nodes else ""
    yield Fault(
        where,
        f"{use.nodes} = {use.needed}{has}; {use.in_use} of {use.quota:g} vCPUs of the quota"
        f' {code} ("{vcpu_quota_name(code)}") are in use',
        f"ask Service Quotas for {use.needed_quota} or more"
        f" ({request_command('ec2', code, use.needed_quota)}), or choose"
        f" another {type_} with fewer vCPUs"
        f"{f' or a smaller {parameter}' if has_smaller else ''}",
    )


def free_plan_faults(instance_types: Mapping[str, str]) -> Iterator[Fault]:
    """The faults of instance types that an account with the Free plan cannot start.

    Args:
        instance_types: the types, by parameter.
    """
    for parameter, instance_type in instance_types.items():
        yield Fault(
            f"{parameter} {instance_type}",
            "the account has AWS's Free plan, and EC2 starts only types that are eligible for Free"
            " Tier there, none of which can be in a cluster placement group",
            "upgrade the account to the Paid plan, which costs nothing by itself and keeps your"
            " credits (aws freetier upgrade-account-plan --account-plan-type PAID)",
        )


def build_faults(builds: Mapping[str, float]) -> Iterator[Fault]:
    """The faults of environments in which CodeBuild builds nothing for this account.

    Args:
        builds: how many builds may run at once, by a key of `IMAGE_BUILDS`.
    """
    for environment, quota in builds.items():
        if quota < 1:
            yield _full(
                "ToolImage build",
                "CodeBuild builds the image",
                (f"builds in {environment}", "codebuild", IMAGE_BUILDS[environment], Use(quota, 0)),
                "name an image",
            )


def network_faults(quotas: Quotas, zone: str) -> Iterator[Fault]:
    """The faults of a VPC, an elastic IP address or a NAT gateway for which there is no room.

    Args:
        quotas: what is known.
        zone: the nodes' zone, in which the NAT gateway is to be; empty if it is not known.
    """
    if quotas.vpcs is not None and quotas.vpcs.is_full:
        yield _full(
            "VpcCidr",
            "the stack makes a VPC",
            ("VPCs of this Region", "vpc", VPCS, quotas.vpcs),
            "delete a VPC that nobody needs",
        )
    if quotas.addresses is not None and quotas.addresses.is_full:
        yield _full(
            "Egress nat",
            "its NAT gateway needs an elastic IP address",
            ("elastic IP addresses of this Region", "ec2", ELASTIC_ADDRESSES, quotas.addresses),
            "set Egress to endpoints",
        )
    if quotas.nat_gateway_quota is None or not zone:
        return
    gateways = Use(quotas.nat_gateway_quota, quotas.nat_gateways.get(zone, 0))
    if gateways.is_full:
        yield _full(
            "Egress nat",
            "it makes a NAT gateway",
            (f"NAT gateways in {zone}", "vpc", NAT_GATEWAYS_PER_ZONE, gateways),
            "set Egress to endpoints",
        )


def _full(where: str, makes: str, counted: tuple[str, str, str, Use], otherwise: str) -> Fault:
    things, service, code, use = counted
    command = request_command(service, code, use.in_use + 1)
    return Fault(
        where,
        f"{makes}, and {use.in_use} of {use.quota:g} {things} (the quota {code}) are in use",
        f"ask Service Quotas for {use.in_use + 1} or more ({command}), or {otherwise}",
    )
