"""The account's quotas, which moto lacks: Service Quotas tells them, EC2 and Lambda keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.aws import quotas
from lab.aws.quotas import CONCURRENT_EXECUTIONS, ELASTIC_ADDRESSES, NAT_GATEWAYS_PER_ZONE, VPCS
from lab.tests.aws.region import Lab

STANDARD = ("ec2", "L-1216C47A")
X_TYPES = ("ec2", "L-7295265B")


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[str, str], float], None]:
    """Set the account's value of a quota."""

    def set_value(key: tuple[str, str], value: float) -> None:
        monkeypatch.setitem(quotas.QUOTAS, key, replace(quotas.QUOTAS[key], applied=value))

    return set_value


@pytest.fixture
def run(lab: Lab) -> Iterator[Callable[..., Any]]:
    """Run instances of a type that no other test runs, and terminate them."""
    ec2 = lab.client("ec2")

    def launch(count: int, instance_type: str = "x1e.xlarge", **arguments: Any) -> list[str]:
        response = ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=instance_type,
            MinCount=count,
            MaxCount=count,
            **arguments,
        )
        return [instance["InstanceId"] for instance in response["Instances"]]

    yield launch
    still = ec2.describe_instances(
        Filters=[
            {"Name": "instance-type", "Values": ["x1e.xlarge"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
    )["Reservations"]
    if ids := [one["InstanceId"] for reservation in still for one in reservation["Instances"]]:
        ec2.terminate_instances(InstanceIds=ids)


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(*arguments, **named)
    return str(refused.value.response["Error"]["Code"])


def test_quotas_of_vcpus_are_named_by_their_code(lab: Lab) -> None:
    client = lab.client("service-quotas")
    response = client.get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")["Quota"]
    quota = quotas.QUOTAS[STANDARD]
    assert (response["QuotaName"], response["Value"]) == (quota.name, quota.value)
    with pytest.raises(client.exceptions.NoSuchResourceException):
        client.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")


def test_a_quota_of_which_nobody_asked_for_more_has_only_a_default(lab: Lab) -> None:
    client = lab.client("service-quotas")
    request = {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"}
    with pytest.raises(client.exceptions.NoSuchResourceException):
        client.get_service_quota(**request)
    assert client.get_aws_default_service_quota(**request)["Quota"]["Value"] == 0
    request["QuotaCode"] = "L-1216C47A"
    assert client.get_aws_default_service_quota(**request)["Quota"]["Value"] == 5
    with pytest.raises(client.exceptions.NoSuchResourceException):
        client.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")


def test_instances_beyond_the_vcpu_quota_of_their_family_are_refused(
    lab: Lab, run: Callable[..., Any], allow: Callable[..., None]
) -> None:
    assert refusal(run, 1) == "VcpuLimitExceeded", "a new account has none of this family"
    allow(X_TYPES, 12)
    first = run(2)
    assert refusal(run, 2) == "VcpuLimitExceeded", "8 of 12 vCPUs are in use, and 8 more needed"
    lab.client("ec2").terminate_instances(InstanceIds=first)
    run(3)


def test_a_capacity_reservation_counts_whole_and_its_instances_do_not_count_again(
    lab: Lab, run: Callable[..., Any], allow: Callable[..., None]
) -> None:
    ec2 = lab.client("ec2")
    allow(X_TYPES, 12)
    reserved = ec2.create_capacity_reservation(
        InstanceType="x1e.xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=2,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    try:
        assert refusal(run, 2) == "VcpuLimitExceeded"
        target = {"CapacityReservationTarget": {"CapacityReservationId": reserved}}
        run(
            2,
            CapacityReservationSpecification=target,
            Placement={"AvailabilityZone": "us-east-1a"},
        )
        run(1)
    finally:
        ec2.cancel_capacity_reservation(CapacityReservationId=reserved)


def test_vpcs_addresses_and_nat_gateways_beyond_their_quotas_are_refused(
    lab: Lab, allow: Callable[..., None]
) -> None:
    ec2 = lab.client("ec2")
    vpcs, addresses = len(ec2.describe_vpcs()["Vpcs"]), len(ec2.describe_addresses()["Addresses"])
    allow(VPCS, vpcs)
    assert refusal(ec2.create_vpc, CidrBlock="10.0.0.0/16") == "VpcLimitExceeded"
    allow(ELASTIC_ADDRESSES, addresses)
    assert refusal(ec2.allocate_address, Domain="vpc") == "AddressLimitExceeded"
    allow(NAT_GATEWAYS_PER_ZONE, 0)
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    making = {"SubnetId": subnet, "ConnectivityType": "private"}
    assert refusal(ec2.create_nat_gateway, **making) == "NatGatewayLimitExceeded"


def test_lambda_reports_how_many_may_run_at_once(lab: Lab) -> None:
    limits = lab.client("lambda").get_account_settings()["AccountLimit"]
    assert limits["UnreservedConcurrentExecutions"] == CONCURRENT_EXECUTIONS


def test_eks_lists_no_version_that_no_cluster_has(lab: Lab) -> None:
    eks = lab.client("eks")
    assert eks.describe_cluster_versions(clusterVersions=["1.02"])["clusterVersions"] == []
