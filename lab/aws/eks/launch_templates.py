"""What a node group uses of its launch template, and what EKS refuses in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.clients import ClientFactory
from lab.aws.eks.validation import invalid

# What EKS refuses in a node group's launch template, with EKS's messages.
# https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
_FORBIDDEN_IN_TEMPLATE = {
    "IamInstanceProfile": (
        "Launch template should not specify an instance profile. The noderole in your request"
        " will be used to construct an instance profile."
    ),
    "InstanceInitiatedShutdownBehavior": ("Launch template should not specify shutdown behavior."),
    "HibernationOptions": "Launch template should not specify hibernation configuration.",
    "InstanceMarketOptions": (
        "Launch template should not specify an instance market options with Spot; use"
        " capacityType instead."
    ),
}


def launch_template(
    clients: ClientFactory, request: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The checked launch template's data and version; both empty without a template."""
    reference = request.get("launchTemplate")
    if not reference:
        return {}, {}
    if reference.get("id") and reference.get("name"):
        raise invalid("You must specify either launch template id or name, not both.")
    if request.get("diskSize"):
        raise invalid("Disk size must be specified within the launch template.")
    if request.get("remoteAccess"):
        raise invalid("Remote access configuration cannot be specified with a launch template.")
    by = (
        {"LaunchTemplateId": reference["id"]}
        if reference.get("id")
        else {"LaunchTemplateName": reference.get("name")}
    )
    try:
        response = clients.get("ec2").describe_launch_template_versions(
            Versions=[reference.get("version") or "$Default"], **by
        )
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error
    version = response["LaunchTemplateVersions"][0]
    data = version["LaunchTemplateData"]
    for key, message in _FORBIDDEN_IN_TEMPLATE.items():
        if data.get(key):
            raise invalid(message)
    for interface in data.get("NetworkInterfaces", []):
        if interface.get("SubnetId"):
            raise invalid(
                "Launch template should not specify subnets; use the node group's subnets."
            )
    placement = data.get("Placement", {})
    if placement.get("GroupName") and placement.get("GroupId"):
        raise invalid("Specify the placement group's GroupName or GroupId, not both.")
    if data.get("ImageId") and not data.get("UserData"):
        raise invalid("User data is required in the launch template when an image id is given.")
    return data, version


def instance_types(request: Mapping[str, Any], template: Mapping[str, Any]) -> list[str]:
    """The types that the request or the template names. Raises ApiError when both name types."""
    types = list(request.get("instanceTypes") or [])
    if types and template.get("InstanceType"):
        raise invalid(
            "Instance types can only be specified in one of the launch template and the"
            " managed node group configuration, not in both."
        )
    if template.get("InstanceType"):
        return [str(template["InstanceType"])]
    return types or ["t3.medium"]
