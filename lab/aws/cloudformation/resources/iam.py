"""AWS::IAM::*"""

from __future__ import annotations

import json
from typing import Any

from ..model import Created, ResourceContext, ResourceType


def _document(policy: Any) -> str:
    if isinstance(policy, str):
        return policy
    # IAM takes documents without a version, as SAM's policy templates are; moto does not.
    return json.dumps({"Version": "2012-10-17", **policy})


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    # IAM refuses tags of the reserved aws: prefix in CreateRole; CloudFormation sets none there.
    return [{"Key": k, "Value": v} for k, v in tags.items() if not k.startswith("aws:")]


class Role(ResourceType):
    """A role with its inline and attached policies."""

    type = "AWS::IAM::Role"
    properties = frozenset(
        {
            "AssumeRolePolicyDocument",
            "Description",
            "ManagedPolicyArns",
            "MaxSessionDuration",
            "Path",
            "PermissionsBoundary",
            "Policies",
            "RoleName",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        iam = context.client("iam")
        name = properties.get("RoleName") or context.physical_name(64)
        options = {
            key: properties[key]
            for key in ("Description", "MaxSessionDuration", "PermissionsBoundary", "Path")
            if key in properties
        }
        self._check_boundary(iam, properties)
        role = iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=_document(properties["AssumeRolePolicyDocument"]),
            Tags=_tag_list(context.tags(properties.get("Tags"))),
            **options,
        )["Role"]
        context.begin(name)
        self._put_policies(iam, name, properties)
        return Created(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    @staticmethod
    def _check_boundary(iam: Any, properties: dict[str, Any]) -> None:
        """IAM refuses a boundary that is not there; moto keeps its ARN."""
        if "PermissionsBoundary" in properties:
            iam.get_policy(PolicyArn=properties["PermissionsBoundary"])

    def _put_policies(self, iam: Any, name: str, properties: dict[str, Any]) -> None:
        for arn in properties.get("ManagedPolicyArns", []):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        for policy in properties.get("Policies", []):
            iam.put_role_policy(
                RoleName=name,
                PolicyName=policy["PolicyName"],
                PolicyDocument=_document(policy["PolicyDocument"]),
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old.get(key) != new.get(key) for key in ("RoleName", "Path")):
            return None
        iam, name = context.client("iam"), str(context.state.physical_id)
        if "PermissionsBoundary" in new:
            self._check_boundary(iam, new)
            iam.put_role_permissions_boundary(
                RoleName=name, PermissionsBoundary=new["PermissionsBoundary"]
            )
        elif "PermissionsBoundary" in old:
            iam.delete_role_permissions_boundary(RoleName=name)
        iam.update_assume_role_policy(
            RoleName=name, PolicyDocument=_document(new["AssumeRolePolicyDocument"])
        )
        self._put_policies(iam, name, new)
        kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
        for policy in old.get("Policies", []):
            if policy["PolicyName"] not in kept:
                iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        for arn in set(old.get("ManagedPolicyArns", [])) - set(new.get("ManagedPolicyArns", [])):
            iam.detach_role_policy(RoleName=name, PolicyArn=arn)
        return Created(name, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        iam, name = context.client("iam"), str(context.state.physical_id)
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        for policy_name in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy_name)
        iam.delete_role(RoleName=name)


class ManagedPolicy(ResourceType):
    """A customer managed policy."""

    type = "AWS::IAM::ManagedPolicy"
    properties = frozenset(
        {
            "Description",
            "ManagedPolicyName",
            "Path",
            "PolicyDocument",
            "Roles",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        iam = context.client("iam")
        policy = iam.create_policy(
            PolicyName=properties.get("ManagedPolicyName") or context.physical_name(128),
            PolicyDocument=_document(properties["PolicyDocument"]),
            Path=properties.get("Path", "/"),
            Description=properties.get("Description", ""),
            Tags=_tag_list(context.tags()),
        )["Policy"]
        context.begin(policy["Arn"])
        for role in properties.get("Roles", []):
            iam.attach_role_policy(RoleName=role, PolicyArn=policy["Arn"])
        return Created(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if {k: v for k, v in old.items() if k != "PolicyDocument"} != {
            k: v for k, v in new.items() if k != "PolicyDocument"
        }:
            return None
        iam, arn = context.client("iam"), str(context.state.physical_id)
        iam.create_policy_version(
            PolicyArn=arn, PolicyDocument=_document(new["PolicyDocument"]), SetAsDefault=True
        )
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        return Created(arn, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        iam, arn = context.client("iam"), str(context.state.physical_id)
        for role in iam.list_entities_for_policy(PolicyArn=arn)["PolicyRoles"]:
            iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=arn)
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        iam.delete_policy(PolicyArn=arn)


class Policy(ResourceType):
    """An inline policy put into roles."""

    type = "AWS::IAM::Policy"
    properties = frozenset(
        {
            "PolicyDocument",
            "PolicyName",
            "Roles",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        self._put(context, properties)
        return Created(context.physical_name(), {"Id": properties["PolicyName"]})

    def _put(self, context: ResourceContext, properties: dict[str, Any]) -> None:
        for role in properties.get("Roles", []):
            context.client("iam").put_role_policy(
                RoleName=role,
                PolicyName=properties["PolicyName"],
                PolicyDocument=_document(properties["PolicyDocument"]),
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old["PolicyName"] != new["PolicyName"] or old.get("Roles") != new.get("Roles"):
            return None
        self._put(context, new)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        for role in context.state.properties.get("Roles", []):
            context.client("iam").delete_role_policy(
                RoleName=role, PolicyName=context.state.properties["PolicyName"]
            )


class InstanceProfile(ResourceType):
    """An instance profile with its role."""

    type = "AWS::IAM::InstanceProfile"
    properties = frozenset(
        {
            "InstanceProfileName",
            "Path",
            "Roles",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        iam = context.client("iam")
        name = properties.get("InstanceProfileName") or context.physical_name(128)
        profile = iam.create_instance_profile(
            InstanceProfileName=name, Path=properties.get("Path", "/")
        )["InstanceProfile"]
        context.begin(name)
        for role in properties.get("Roles", []):
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return Created(name, {"Arn": profile["Arn"]})

    def delete(self, context: ResourceContext) -> None:
        iam, name = context.client("iam"), str(context.state.physical_id)
        for role in context.state.properties.get("Roles", []):
            iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        iam.delete_instance_profile(InstanceProfileName=name)


class OidcProvider(ResourceType):
    """An OpenID Connect provider, as roles for service accounts use."""

    type = "AWS::IAM::OIDCProvider"
    properties = frozenset(
        {
            "ClientIdList",
            "ThumbprintList",
            "Url",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        arn = context.client("iam").create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=properties.get("ThumbprintList", ["0" * 40]),
        )["OpenIDConnectProviderArn"]
        return Created(arn, {"Arn": arn})

    def delete(self, context: ResourceContext) -> None:
        context.client("iam").delete_open_id_connect_provider(
            OpenIDConnectProviderArn=context.state.physical_id
        )
