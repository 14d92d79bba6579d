"""DescribeInstanceTopology for moto's EC2.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-topology-prerequisites.html
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from lab.aws.ec2.placement_groups import GROUPS

_MOST_INSTANCES = 100
# The types that have a topology; EC2 lists no instances of others.
_TYPES = re.compile(r"^(g6e|g7e|hpc\w+|p3dn|p[4-6]\w*|trn\w+)\.")


def describe_instance_topology(self: EC2Response) -> ActionResult:
    ids = self._get_param("InstanceIds", []) or []
    if len(ids) > _MOST_INSTANCES:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"The number of instance IDs must not exceed {_MOST_INSTANCES}.",
        )
    self.error_on_dryrun()
    instances = [
        instance
        for instance in self.ec2_backend.all_instances()
        if (not ids or instance.id in ids)
        and instance.state == "running"
        and _TYPES.match(instance.instance_type)
    ]
    return ActionResult({"Instances": [_topology(instance) for instance in instances]})


def _topology(instance: Any) -> dict[str, Any]:
    """Where an instance is: its zone's network node, one below it, and that of its rack."""
    where = instance.placement
    rack = instance.id
    if where.group_name:
        group = GROUPS.find(instance.owner_id, group_id=where.group_id)
        of_group = {"cluster": group.id, "partition": f"{group.id}/{where.partition_number}"}
        rack = of_group.get(group.strategy, rack)
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "GroupName": where.group_name or None,
        "AvailabilityZone": where.zone,
        "NetworkNodes": [_node(where.zone), _node(where.zone, "row"), _node(where.zone, rack)],
    }


def _node(*path: str) -> str:
    return f"nn-{hashlib.sha256('/'.join(path).encode()).hexdigest()[:17]}"
