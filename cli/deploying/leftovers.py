"""What others left in the stack's VPC, which keeps CloudFormation from deleting it.

GuardDuty's Runtime Monitoring makes an endpoint and a security group in VPCs with nodes, with the
tag `GuardDutyManaged` (GuardDuty user guide; terraform-provider-aws#46747). The VPC CNI leaves
network interfaces behind when a node ends early. It finds them again as this module does, by their
description, their state and their tags (amazon-vpc-cni-k8s#624, #2856).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ..errors import EXIT_FAILED, Refusal, error_code
from ..printing.progress import Display
from ..reading.stack import paginated

_ENDPOINT, _GROUP, _INTERFACE = "endpoint", "security group", "network interface"
#: What EC2 lists of each kind: the operation, its list, and the key of the id.
_KINDS = (
    (_ENDPOINT, "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    (_GROUP, "describe_security_groups", "SecurityGroups", "GroupId"),
    (_INTERFACE, "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
)
_POLL_SECONDS = 2.0
#: EC2 takes up to ten minutes to delete an interface endpoint, and its group is in use until then.
_PATIENCE_SECONDS = 20 * 60


@dataclass(frozen=True)
class Leftover:
    """Something in the VPC that the stack did not make.

    `kind` is `endpoint`, `security group` or `network interface`. `is_removable` says that it only
    served the nodes of the stack, so that it may go with them.
    """

    kind: str
    id: str
    why: str
    is_removable: bool

    def __str__(self) -> str:
        return f"the {self.kind} {self.id} ({self.why})"


def find(ec2: Any, vpc: str, cluster: str, own: Set[str]) -> list[Leftover]:
    """Everything that holds a VPC, but for what has one of the ids `own`.

    `cluster` is the name of the cluster whose nodes were in the VPC.
    """
    leftovers, accounted = [], {*own}
    for kind, operation, key, id_key in _KINDS:
        in_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
        for each in paginated(ec2, operation, key, Filters=in_vpc):
            # Those of an endpoint go with it.
            accounted.update(each.get("NetworkInterfaceIds") or ())
            is_rest = each.get("GroupName") == "default" or _state(each) == "deleted"
            if each[id_key] not in accounted and not is_rest:
                leftovers.append(Leftover(kind, each[id_key], *_reason(each, cluster)))
    return leftovers


def _state(item: Mapping[str, Any]) -> str:
    # EC2 writes an endpoint's state in small letters, its model in capitals.
    return str(item.get("State") or item.get("Status") or "").lower()


def _reason(item: Mapping[str, Any], cluster: str) -> tuple[str, bool]:
    """Why something is in the VPC, and whether it may go."""
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags") or item.get("TagSet") or ()}
    description = str(item.get("Description", ""))
    if "NetworkInterfaceId" not in item:
        if tags.get("GuardDutyManaged") == "true":
            return "made by GuardDuty's Runtime Monitoring", True
        return f"{item.get('ServiceName') or item['GroupName']}, not made by the stack", False
    instance = tags.get("node.k8s.amazonaws.com/instance_id")
    is_of_cluster = instance and tags.get("cluster.k8s.amazonaws.com/name") == cluster
    if is_of_cluster and description.startswith("aws-K8S-") and _state(item) == "available":
        return f"left by the VPC CNI of the instance {instance}", True
    return f"{description or 'without a description'}, {_state(item)}", False


def remove(ec2: Any, leftovers: Sequence[Leftover], display: Display) -> None:
    """Delete leftovers, and wait until they are deleted.

    Raises Refusal when EC2 still has some after `_PATIENCE_SECONDS`.
    """
    began, rest = time.monotonic(), list(leftovers)
    if endpoints := [each.id for each in rest if each.kind == _ENDPOINT]:
        # EC2 lists those that it does not accept, perhaps because they are being deleted already.
        ec2.delete_vpc_endpoints(VpcEndpointIds=endpoints)
    with display:
        while rest := [each for each in rest if not _is_deleted(ec2, each)]:
            seconds = time.monotonic() - began
            if seconds > _PATIENCE_SECONDS:
                raise Refusal(f"EC2 does not delete {rest[0]}; delete it yourself.", EXIT_FAILED)
            display.show(f"deleting {rest[0]}", seconds, None)
            time.sleep(_POLL_SECONDS)


def _is_deleted(ec2: Any, leftover: Leftover) -> bool:
    """Whether a leftover is deleted; asks EC2 to delete what is no endpoint."""
    try:
        if leftover.kind == _ENDPOINT:
            response = ec2.describe_vpc_endpoints(VpcEndpointIds=[leftover.id])
            return all(_state(each) == "deleted" for each in response["VpcEndpoints"])
        if leftover.kind == _GROUP:
            ec2.delete_security_group(GroupId=leftover.id)
        else:
            ec2.delete_network_interface(NetworkInterfaceId=leftover.id)
    except ClientError as error:
        code = error_code(error)
        if code != "DependencyViolation" and not code.endswith(".NotFound"):
            raise
        return code != "DependencyViolation"
    return True
