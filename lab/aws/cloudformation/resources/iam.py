"""AWS::IAM::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging

_DOCUMENTS = ("AssumeRolePolicyDocument", "PolicyDocument")


def _document(policy: Any) -> str:
    if isinstance(policy, str):
        return policy
    # IAM accepts documents without a version, such as SAM's policy templates; moto does not.
    return json.dumps({"Version": "2012-10-17", **policy})


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    _check_boundary(context, properties)
    return {
        name: _document(value) if name in _DOCUMENTS else value
        for name, value in properties.items()
    }


def _check_boundary(context: ResourceContext, properties: Properties) -> None:
    """Refuse a boundary that does not exist, as IAM does; moto would keep its ARN."""
    if "PermissionsBoundary" in properties:
        context.client("iam").get_policy(PolicyArn=properties["PermissionsBoundary"])


def _configure_role(context: ResourceContext, old: Properties, new: Properties) -> None:
    iam, name = context.client("iam"), str(context.state.physical_id)
    if old:
        _change_role(context, old, new)
    for arn in new.get("ManagedPolicyArns", []):
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    for policy in new.get("Policies", []):
        iam.put_role_policy(
            RoleName=name,
            PolicyName=policy["PolicyName"],
            PolicyDocument=_document(policy["PolicyDocument"]),
        )


def _change_role(context: ResourceContext, old: Properties, new: Properties) -> None:
    iam, name = context.client("iam"), str(context.state.physical_id)
    boundary = new.get("PermissionsBoundary")
    if boundary:
        _check_boundary(context, new)
        iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=boundary)
    elif "PermissionsBoundary" in old:
        iam.delete_role_permissions_boundary(RoleName=name)
    trust = _document(new["AssumeRolePolicyDocument"])
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust)
    remaining = {policy["PolicyName"] for policy in new.get("Policies", [])}
    for policy in old.get("Policies", []):
        if policy["PolicyName"] not in remaining:
            iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
    for arn in set(old.get("ManagedPolicyArns", [])) - set(new.get("ManagedPolicyArns", [])):
        iam.detach_role_policy(RoleName=name, PolicyArn=arn)


def _empty_role(context: ResourceContext) -> None:
    iam, name = context.client("iam"), str(context.state.physical_id)
    for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    for policy_name in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy_name)


def _configure_policy(context: ResourceContext, old: Properties, new: Properties) -> None:
    if old:
        context.client("iam").create_policy_version(
            PolicyArn=context.state.physical_id,
            PolicyDocument=_document(new["PolicyDocument"]),
            SetAsDefault=True,
        )
        _delete_other_versions(context)


def _delete_other_versions(context: ResourceContext) -> None:
    iam, arn = context.client("iam"), str(context.state.physical_id)
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


def _change_profile(context: ResourceContext, old: Properties, new: Properties) -> None:
    for verb, roles in (("RemoveRoleFrom", old.get("Roles", [])), ("AddRoleTo", new["Roles"])):
        for role in roles:
            names = {"InstanceProfileName": context.state.physical_id, "RoleName": role}
            context.call("iam", f"{verb}InstanceProfile", names)


RESOURCES = (
    ApiResource(
        type="AWS::IAM::InstanceProfile",
        properties=names("InstanceProfileName Roles"),
        name=("InstanceProfileName", 128),
        later=("Roles",),
        creation=Call("CreateInstanceProfile"),
        result="InstanceProfile",
        id="{InstanceProfileName}",
        attributes={"Arn": "{Arn}"},
        configure=_change_profile,
        before_delete=lambda each: _change_profile(each, each.state.properties, {"Roles": []}),
        deletion=Call("DeleteInstanceProfile", InstanceProfileName="{id}"),
    ),
    ApiResource(
        type="AWS::IAM::Role",
        properties=names(
            "AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration"
            " PermissionsBoundary Policies RoleName Tags"
        ),
        name=("RoleName", 64),
        later=("ManagedPolicyArns", "Policies"),
        prepare=_prepare,
        creation=Call("CreateRole"),
        result="Role",
        id="{RoleName}",
        attributes={"Arn": "{Arn}"},
        configure=_configure_role,
        before_delete=_empty_role,
        deletion=Call("DeleteRole", RoleName="{id}"),
        # CloudFormation sets none of its own tags on roles.
        tagging=Tagging("iam", "TagRole", "RoleName", identity="{id}", takes_own=False),
    ),
    ApiResource(
        type="AWS::IAM::RolePolicy",
        properties=names("PolicyDocument PolicyName RoleName"),
        prepare=_prepare,
        creation=Call("PutRolePolicy"),
        id="{PolicyName}|{RoleName}",
        change=Call("PutRolePolicy"),
        deletion=Call("DeleteRolePolicy", RoleName="{RoleName}", PolicyName="{PolicyName}"),
    ),
    ApiResource(
        type="AWS::IAM::ManagedPolicy",
        properties=names("Description ManagedPolicyName PolicyDocument"),
        name=("ManagedPolicyName", 128),
        later=("ManagedPolicyName",),
        prepare=_prepare,
        creation=Call("CreatePolicy", PolicyName="{ManagedPolicyName}"),
        result="Policy",
        id="{Arn}",
        configure=_configure_policy,
        before_delete=_delete_other_versions,
        deletion=Call("DeletePolicy", PolicyArn="{id}"),
    ),
)
