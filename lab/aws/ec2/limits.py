"""EC2 refuses what is beyond the account's quotas: vCPUs, VPCs, elastic IP addresses, NAT gateways;
and the instance types that the account's plan does not have.

On-Demand instances count while they are pending or running. An active capacity reservation counts
whole, used or not (EC2 user guide, "On-Demand Instance quotas", and the limitations in "Reserve
compute capacity with EC2 On-Demand Capacity Reservations").
"""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend

from lab.aws import account, quotas
from lab.aws.ec2.capacity_reservations import active_reservations

_COUNTED = frozenset({"pending", "running"})


def check_vpcs(backend: EC2Backend, *_: Any, **__: Any) -> None:
    if len(backend.vpcs) >= quotas.QUOTAS[quotas.VPCS].value:
        raise EC2ClientError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")


def check_addresses(backend: EC2Backend, *_: Any, **__: Any) -> None:
    if len(backend.addresses) >= quotas.QUOTAS[quotas.ELASTIC_ADDRESSES].value:
        raise EC2ClientError(
            "AddressLimitExceeded", "The maximum number of addresses has been reached."
        )


def check_nat_gateways(backend: EC2Backend, subnet_id: str, *_: Any, **__: Any) -> None:
    zone = backend.get_subnet(subnet_id).availability_zone
    there = sum(
        gateway.state in ("pending", "available", "deleting")
        and backend.get_subnet(gateway.subnet_id).availability_zone == zone
        for gateway in backend.nat_gateways.values()
    )
    if there >= quotas.QUOTAS[quotas.NAT_GATEWAYS_PER_ZONE].value:
        raise EC2ClientError(
            "NatGatewayLimitExceeded", "The maximum number of NAT Gateways has been reached."
        )


def check_plan(backend: EC2Backend, instance_type: str) -> None:
    """Check a launch against the account's plan. Raises EC2ClientError InvalidParameterCombination.

    EC2's words are in https://github.com/LinkedInLearning/learning-terraform-3087701/issues/345.
    """
    described = backend.describe_instance_types([instance_type])[0]
    if account.PLAN == "FREE" and not described.get("FreeTierEligible"):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The specified instance type is not eligible for Free Tier. For a list of Free Tier"
            " instance types, run 'describe-instance-types' with the filter"
            " 'free-tier-eligible=true'.",
        )


def check_vcpus(backend: EC2Backend, instance_type: str, count: int) -> None:
    """Check a launch outside of capacity reservations. Raises EC2ClientError VcpuLimitExceeded."""
    code = quotas.vcpu_quota_code(instance_type)
    if code is None:
        return
    limit = quotas.QUOTAS["ec2", code].value
    if _vcpus_in_use(backend, code) + count * _vcpus(backend, instance_type) > limit:
        raise EC2ClientError(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit:g}"
            " allows for the instance bucket that the specified instance type belongs to. Please"
            " visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this"
            " limit.",
        )


def _vcpus_in_use(backend: EC2Backend, code: str) -> int:
    instances = sum(
        _vcpus(backend, instance.instance_type)
        for instance in backend.all_instances()
        if instance.state in _COUNTED
        and instance.lifecycle is None
        and getattr(instance, "capacity_reservation_id", None) is None
        and quotas.vcpu_quota_code(instance.instance_type) == code
    )
    reserved = sum(
        one.total * _vcpus(backend, one.instance_type)
        for one in active_reservations()
        if quotas.vcpu_quota_code(one.instance_type) == code
    )
    return instances + reserved


def _vcpus(backend: EC2Backend, instance_type: str) -> int:
    return int(backend.describe_instance_types([instance_type])[0]["VCpuInfo"]["DefaultVCpus"])
