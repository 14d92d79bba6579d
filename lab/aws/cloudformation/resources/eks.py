"""AWS::EKS::*: sends the EKS API's requests and waits for them as CloudFormation does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lab.aws.cloudformation.coercion import camel_case
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, ResourceContext, ResourceType

_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 900.0
# Members whose keys are the user's own, so they keep their spelling.
_VERBATIM = {"Labels", "Tags"}


def _request(properties: dict[str, Any], *without: str) -> dict[str, Any]:
    """Properties as the API's request, in camelCase."""
    chosen = {key: value for key, value in properties.items() if key not in without}
    return dict(camel_case(chosen, verbatim=_VERBATIM))


def _await(context: ResourceContext, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Poll until the resource is ACTIVE. Raises ResourceFailure with its health issues."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        found = describe()
        if found["status"] == "ACTIVE":
            return found
        if found["status"].endswith(("FAILED", "DEGRADED")):
            issues = [
                f"Issue(Code={issue['code']}, Message={issue['message']},"
                f" ResourceIds={issue.get('resourceIds', [])})"
                for issue in found.get("health", {}).get("issues", [])
            ]
            raise ResourceFailure(f'Resource handler returned message: "[{"; ".join(issues)}]"')
        if context.stack.cancelled.is_set():
            raise ResourceFailure("Resource creation cancelled")
        time.sleep(_POLL_SECONDS)
    raise ResourceFailure(f"Exceeded attempts to wait: still {found['status']}")


def _await_gone(describe: Callable[[], Any], missing: type[Exception]) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            found = describe()
        except missing:
            return
        status = found.get("status", "")
        if status == "DELETE_FAILED":
            issues = found.get("health", {}).get("issues", [])
            raise ResourceFailure("; ".join(issue["message"] for issue in issues))
        time.sleep(_POLL_SECONDS)
    raise ResourceFailure("Exceeded attempts to wait for the deletion")


class EksCluster(ResourceType):
    """A control plane."""

    type = "AWS::EKS::Cluster"
    properties = frozenset(
        {
            "AccessConfig",
            "BootstrapSelfManagedAddons",
            "EncryptionConfig",
            "Logging",
            "Name",
            "ResourcesVpcConfig",
            "RoleArn",
            "Tags",
            "Version",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        name = properties.get("Name") or context.physical_name(100)
        request = _request(properties, "Name", "Tags")
        if "logging" in request:
            enabled = request["logging"].get("clusterLogging", {}).get("enabledTypes", [])
            types = [item["type"] for item in enabled]
            request["logging"] = {"clusterLogging": [{"types": types, "enabled": True}]}
        tags = context.tags(properties.get("Tags"))
        context.call("eks", "CreateCluster", {**request, "name": name, "tags": tags})
        context.begin(name)
        cluster = _await(context, lambda: eks.describe_cluster(name=name)["cluster"])
        return Created(name, _cluster_attributes(cluster))

    def delete(self, context: ResourceContext) -> None:
        eks, name = context.client("eks"), context.state.physical_id
        eks.delete_cluster(name=name)
        _await_gone(
            lambda: eks.describe_cluster(name=name)["cluster"],
            eks.exceptions.ResourceNotFoundException,
        )


def _as_resource(update: dict[str, Any]) -> dict[str, Any]:
    """An update's outcome in the form in which resources have theirs."""
    status = {"Successful": "ACTIVE", "Failed": "UPDATE_FAILED"}.get(update["status"], "UPDATING")
    issues = [
        {"code": error["errorCode"], "message": error["errorMessage"]} for error in update["errors"]
    ]
    return {"status": status, "health": {"issues": issues}}


def _cluster_attributes(cluster: dict[str, Any]) -> dict[str, Any]:
    network = cluster["kubernetesNetworkConfig"]
    return {
        "Arn": cluster["arn"],
        "CertificateAuthorityData": cluster["certificateAuthority"]["data"],
        "ClusterSecurityGroupId": cluster["resourcesVpcConfig"]["clusterSecurityGroupId"],
        "Endpoint": cluster["endpoint"],
        "Id": cluster.get("id", cluster["name"]),
        "KubernetesNetworkConfig.ServiceIpv4Cidr": network["serviceIpv4Cidr"],
        "OpenIdConnectIssuerUrl": cluster["identity"]["oidc"]["issuer"],
    }


class Nodegroup(ResourceType):
    """A managed node group, whose instances become nodes."""

    type = "AWS::EKS::Nodegroup"
    properties = frozenset(
        {
            "AmiType",
            "ClusterName",
            "InstanceTypes",
            "Labels",
            "LaunchTemplate",
            "NodeRole",
            "NodegroupName",
            "ScalingConfig",
            "Subnets",
            "Tags",
            "Version",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        cluster = properties["ClusterName"]
        name = properties.get("NodegroupName") or context.physical_name(63)
        request = {
            **_request(properties, "NodegroupName", "Tags"),
            "nodegroupName": name,
            "tags": context.tags(properties.get("Tags")),
        }
        context.call("eks", "CreateNodegroup", request)
        context.begin(f"{cluster}/{name}")
        group = _await(
            context,
            lambda: eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"],
        )
        return Created(
            f"{cluster}/{name}",
            {
                "Arn": group["nodegroupArn"],
                "ClusterName": cluster,
                "Id": f"{cluster}/{name}",
                "NodegroupName": name,
            },
        )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if {key for key in {*old, *new} if old.get(key) != new.get(key)} != {"ScalingConfig"}:
            return None
        eks = context.client("eks")
        cluster, name = str(context.state.physical_id).split("/", 1)
        request = {
            "clusterName": cluster,
            "nodegroupName": name,
            "scalingConfig": camel_case(new["ScalingConfig"]),
        }
        context.call("eks", "UpdateNodegroupConfig", request)
        _await(
            context,
            lambda: eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"],
        )
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        eks = context.client("eks")
        cluster, name = str(context.state.physical_id).split("/", 1)
        eks.delete_nodegroup(clusterName=cluster, nodegroupName=name)
        _await_gone(
            lambda: eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"],
            eks.exceptions.ResourceNotFoundException,
        )


class Addon(ResourceType):
    """An add-on of a cluster."""

    type = "AWS::EKS::Addon"
    properties = frozenset(
        {
            "AddonName",
            "AddonVersion",
            "ClusterName",
            "ConfigurationValues",
            "ResolveConflicts",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        cluster, name = properties["ClusterName"], properties["AddonName"]
        request = _request(properties, "Tags")
        addon = eks.create_addon(tags=context.tags(properties.get("Tags")), **request)["addon"]
        context.begin(f"{cluster}|{name}")
        _await(context, lambda: eks.describe_addon(clusterName=cluster, addonName=name)["addon"])
        return Created(f"{cluster}|{name}", {"Arn": addon["addonArn"]})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old.get(key) != new.get(key) for key in ("AddonName", "ClusterName")):
            return None
        eks = context.client("eks")
        cluster, name = new["ClusterName"], new["AddonName"]
        change = eks.update_addon(**_request(new, "Tags"))["update"]

        def outcome() -> dict[str, Any]:
            found = eks.describe_update(name=cluster, addonName=name, updateId=change["id"])
            return _as_resource(found["update"])

        _await(context, outcome)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        cluster, name = str(context.state.physical_id).split("|", 1)
        context.client("eks").delete_addon(clusterName=cluster, addonName=name)


class EksAccessEntry(ResourceType):
    """An access entry: who may reach a cluster's API server, and as whom."""

    type = "AWS::EKS::AccessEntry"
    properties = frozenset(
        {
            "AccessPolicies",
            "ClusterName",
            "KubernetesGroups",
            "PrincipalArn",
            "Tags",
            "Type",
            "Username",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
        request = _request(properties, "AccessPolicies", "Tags")
        entry = eks.create_access_entry(tags=context.tags(properties.get("Tags")), **request)
        context.begin(f"{principal}|{cluster}")
        for policy in properties.get("AccessPolicies", []):
            eks.associate_access_policy(
                clusterName=cluster, principalArn=principal, **camel_case(policy)
            )
        return Created(
            f"{principal}|{cluster}", {"AccessEntryArn": entry["accessEntry"]["accessEntryArn"]}
        )

    def delete(self, context: ResourceContext) -> None:
        principal, cluster = str(context.state.physical_id).rsplit("|", 1)
        context.client("eks").delete_access_entry(clusterName=cluster, principalArn=principal)
