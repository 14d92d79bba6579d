"""AWS::IAM::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


def _document(policy: Any) -> str:
    if isinstance(policy, str):
        return policy
    # IAM accepts documents without a version, such as SAM's policy templates; moto does not.
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
            "PermissionsBoundary",
            "Policies",
            "RoleName",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        iam = context.client("iam")
        name = properties.get("RoleName") or context.physical_name(64)
        options = {
            key: properties[key]
            for key in ("Description", "MaxSessionDuration", "PermissionsBoundary")
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
    def _check_boundary(iam: Any, properties: Properties) -> None:
        """Refuse a boundary that does not exist, as IAM does; moto would keep its ARN."""
        if "PermissionsBoundary" in properties:
            iam.get_policy(PolicyArn=properties["PermissionsBoundary"])

    def _put_policies(self, iam: Any, name: str, properties: Properties) -> None:
        for arn in properties.get("ManagedPolicyArns", []):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        for policy in properties.get("Policies", []):
            iam.put_role_policy(
                RoleName=name,
                PolicyName=policy["PolicyName"],
                PolicyDocument=_document(policy["PolicyDocument"]),
            )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
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

    def delete(self, context: ResourceContext) -> None:
        iam, name = context.client("iam"), str(context.state.physical_id)
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        for policy_name in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy_name)
        iam.delete_role(RoleName=name)


class RolePolicy(ResourceType):
    """A policy inside a role, apart from the role in the template."""

    type = "AWS::IAM::RolePolicy"
    properties = frozenset({"PolicyDocument", "PolicyName", "RoleName"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        role, name = properties["RoleName"], properties["PolicyName"]
        context.client("iam").put_role_policy(
            RoleName=role, PolicyName=name, PolicyDocument=_document(properties["PolicyDocument"])
        )
        return Created(f"{name}|{role}")

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self.create(context, new)

    def delete(self, context: ResourceContext) -> None:
        name, role = str(context.state.physical_id).split("|", 1)
        context.client("iam").delete_role_policy(RoleName=role, PolicyName=name)


class ManagedPolicy(ResourceType):
    """A customer managed policy."""

    type = "AWS::IAM::ManagedPolicy"
    properties = frozenset({"Description", "ManagedPolicyName", "PolicyDocument"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        iam = context.client("iam")
        policy = iam.create_policy(
            PolicyName=properties.get("ManagedPolicyName") or context.physical_name(128),
            PolicyDocument=_document(properties["PolicyDocument"]),
            Description=properties.get("Description", ""),
            Tags=_tag_list(context.tags()),
        )["Policy"]
        context.begin(policy["Arn"])
        return Created(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        iam, arn = context.client("iam"), str(context.state.physical_id)
        iam.create_policy_version(
            PolicyArn=arn, PolicyDocument=_document(new["PolicyDocument"]), SetAsDefault=True
        )
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])

    def delete(self, context: ResourceContext) -> None:
        iam, arn = context.client("iam"), str(context.state.physical_id)
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        iam.delete_policy(PolicyArn=arn)


class OidcProvider(ResourceType):
    """An OpenID Connect provider, which roles for service accounts use."""

    type = "AWS::IAM::OIDCProvider"
    deletion = ("iam", "DeleteOpenIDConnectProvider", "OpenIDConnectProviderArn")
    properties = frozenset({"ClientIdList", "Url"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        arn = context.client("iam").create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=["0" * 40],
        )["OpenIDConnectProviderArn"]
        return Created(arn, {"Arn": arn})
