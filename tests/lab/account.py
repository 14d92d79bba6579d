"""What an AWS account holds: found by asking each service, so that what a stack leaves is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lab.running import Lab

#: Every account has these, or the lab's own fixtures do.
DEFAULT_GROUPS = ("default",)


def holdings(lab: Lab) -> set[str]:
    """Everything that a stack could make, each as `kind name`."""
    return {f"{kind} {name}" for kind, name in _holdings(lab)}


def cluster_logs(cluster: str) -> str:
    """The log group of a cluster that the stack made, as `kind name`; it outlives the stack."""
    return f"log group /aws/eks/{cluster}/cluster"


def _holdings(lab: Lab) -> Iterator[tuple[str, str]]:
    ec2 = lab.aws("ec2")
    for vpc in ec2.describe_vpcs()["Vpcs"]:
        yield "vpc", vpc["VpcId"]
    for subnet in ec2.describe_subnets()["Subnets"]:
        yield "subnet", subnet["SubnetId"]
    for gateway in ec2.describe_nat_gateways()["NatGateways"]:
        if gateway["State"] != "deleted":
            yield "nat gateway", gateway["NatGatewayId"]
    for gateway in ec2.describe_internet_gateways()["InternetGateways"]:
        yield "internet gateway", gateway["InternetGatewayId"]
    for address in ec2.describe_addresses()["Addresses"]:
        yield "address", address["AllocationId"]
    for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]:
        if endpoint["State"] != "deleted":
            yield "vpc endpoint", endpoint["VpcEndpointId"]
    for group in ec2.describe_security_groups()["SecurityGroups"]:
        if group["GroupName"] not in DEFAULT_GROUPS:
            yield "security group", group["GroupId"]
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        yield "launch template", template["LaunchTemplateId"]
    for group in ec2.describe_placement_groups()["PlacementGroups"]:
        yield "placement group", group["GroupName"]
    for instance in instances(lab):
        yield "instance", instance["InstanceId"]
    for volume in ec2.describe_volumes()["Volumes"]:
        yield "volume", volume["VolumeId"]
    for name in lab.aws("eks").list_clusters()["clusters"]:
        yield "cluster", name
    for role in _pages(lab, "iam", "list_roles", "Roles"):
        yield "role", role["RoleName"]
    for policy in lab.aws("iam").list_policies(Scope="Local")["Policies"]:
        yield "policy", policy["PolicyName"]
    for function in _pages(lab, "lambda", "list_functions", "Functions"):
        yield "function", function["FunctionName"]
    for group in _pages(lab, "logs", "describe_log_groups", "logGroups"):
        yield "log group", group["logGroupName"]
    for machine in lab.aws("stepfunctions").list_state_machines()["stateMachines"]:
        yield "state machine", machine["name"]
    for rule in lab.aws("events").list_rules()["Rules"]:
        yield "rule", rule["Name"]
    for table in lab.aws("dynamodb").list_tables()["TableNames"]:
        yield "table", table
    for bucket in lab.aws("s3").list_buckets()["Buckets"]:
        yield "bucket", bucket["Name"]
    for key in customer_keys(lab):
        yield "key", key["KeyId"]
    for alias in lab.aws("kms").list_aliases()["Aliases"]:
        if not alias["AliasName"].startswith("alias/aws/"):
            yield "alias", alias["AliasName"]
    for repository in lab.aws("ecr").describe_repositories()["repositories"]:
        yield "repository", repository["repositoryName"]
    for project in lab.aws("codebuild").list_projects()["projects"]:
        yield "project", project
    for topic in lab.aws("sns").list_topics()["Topics"]:
        yield "topic", topic["TopicArn"]
    for alarm in lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]:
        yield "alarm", alarm["AlarmName"]
    for dashboard in lab.aws("cloudwatch").list_dashboards()["DashboardEntries"]:
        yield "dashboard", dashboard["DashboardName"]


def instances(lab: Lab) -> list[dict[str, Any]]:
    """Instances that are not terminated."""
    reservations = _pages(lab, "ec2", "describe_instances", "Reservations")
    return [
        instance
        for reservation in reservations
        for instance in reservation["Instances"]
        if instance["State"]["Name"] != "terminated"
    ]


def customer_keys(lab: Lab) -> list[dict[str, Any]]:
    """KMS keys that are the account's own and not about to be deleted."""
    kms = lab.aws("kms")
    described = (
        kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]
    )
    return [
        key
        for key in described
        if key["KeyState"] == "Enabled" and not key["Description"].startswith("Default master key")
    ]


def _pages(lab: Lab, service: str, operation: str, items: str) -> list[Any]:
    pages = lab.aws(service).get_paginator(operation).paginate()
    return [item for page in pages for item in page[items]]
