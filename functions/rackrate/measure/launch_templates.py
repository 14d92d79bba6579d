"""Versions of the node groups' launch templates, which carry the instance type.

A sweep over instance types makes versions of its own, each of a version of the stack's. They say so
in their descriptions, by which they are found, used again and deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import ChangeFailed, translated
from rackrate.measure.node_groups import NodeGroup

_DESCRIPTION = "rackrate: made of version {} for a sweep"
_MADE_OF = re.compile(_DESCRIPTION.format(r"(\d{1,9})"), re.ASCII)
#: The most that EC2 lists at a time.
_PAGE = 200


@dataclass(frozen=True)
class Version:
    """A version of a launch template.

    Attributes:
        template_id: the launch template's id.
        number: the version's number.
        instance_type: its instance type; None if it has none.
        made_of: the version of the stack's that a sweep made it of; None for the stack's own.
        is_reserved: whether instances go into a capacity reservation, which is of one type.
    """

    template_id: str
    number: int
    instance_type: str | None
    made_of: int | None
    is_reserved: bool


def versions(ec2: Any, template_id: str) -> dict[int, Version]:
    """All versions of a launch template, by number.

    Raises:
        Throttled: EC2 throttled the request.
    """
    request: dict[str, Any] = {"LaunchTemplateId": template_id, "MaxResults": _PAGE}
    by_number: dict[int, Version] = {}
    while True:
        with translated():
            response = ec2.describe_launch_template_versions(**request)
        for each in response["LaunchTemplateVersions"]:
            data, number = each["LaunchTemplateData"], int(each["VersionNumber"])
            made_of = _MADE_OF.fullmatch(each.get("VersionDescription") or "")
            reservation = data.get("CapacityReservationSpecification") or {}
            by_number[number] = Version(
                template_id=template_id,
                number=number,
                instance_type=data.get("InstanceType"),
                made_of=None if made_of is None else int(made_of[1]),
                is_reserved="CapacityReservationTarget" in reservation,
            )
        if not response.get("NextToken"):
            return by_number
        request["NextToken"] = response["NextToken"]


def instance_type_of(ec2: Any, group: NodeGroup) -> str | None:
    """The instance type of a node group: its own, or that of its launch template.

    Raises:
        Throttled: EC2 throttled the request.
    """
    if group.instance_type is not None or group.template_id is None:
        return group.instance_type
    with translated():
        response = ec2.describe_launch_template_versions(
            LaunchTemplateId=group.template_id, Versions=[str(group.template_version)]
        )
    instance_type: str | None = response["LaunchTemplateVersions"][0]["LaunchTemplateData"].get(
        "InstanceType"
    )
    return instance_type


def make_version(ec2: Any, source: Version, instance_type: str) -> int:
    """Make a version with another instance type. Returns its number.

    Raises:
        ChangeFailed: EC2 refuses it; the message has EC2's words.
        Throttled: EC2 throttled the request.
    """
    try:
        with translated():
            response = ec2.create_launch_template_version(
                LaunchTemplateId=source.template_id,
                SourceVersion=str(source.number),
                VersionDescription=_DESCRIPTION.format(source.number),
                LaunchTemplateData={"InstanceType": instance_type},
            )
    except ClientError as error:
        why = error.response["Error"].get("Message", "")
        raise ChangeFailed(
            f"the launch template {source.template_id} gets no version with {instance_type}: {why}"
        ) from error
    return int(response["LaunchTemplateVersion"]["VersionNumber"])


def delete_versions(ec2: Any, template_id: str, numbers: list[int]) -> None:
    """Delete versions of a launch template, of which none is its default.

    Raises:
        Throttled: EC2 throttled the request.
    """
    with translated():
        ec2.delete_launch_template_versions(
            LaunchTemplateId=template_id, Versions=[str(each) for each in numbers]
        )
