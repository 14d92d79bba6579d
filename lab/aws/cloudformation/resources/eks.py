"""AWS::EKS::*: the EKS API's requests, awaited as CloudFormation awaits them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..model import Created, ResourceContext, ResourceFailure, ResourceType

_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 900.0
# Members whose keys are the user's own and keep their spelling.
_VERBATIM = {"Labels", "Tags"}


def _camel(value: Any, key: str = "") -> Any:
    """CloudFormation's PascalCase as the EKS API's camelCase."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if isinstance(value, dict):
        if key in _VERBATIM:
            return value
        return {name[0].lower() + name[1:]: _camel(item, name) for name, item in value.items()}
    return value


def _numbers(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: int(item) if key in names else item for key, item in value.items()}


def _booleans(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {
        key: str(item).lower() == "true" if key in names else item for key, item in value.items()
    }


def _await(context: ResourceContext, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Poll until the resource is ACTIVE; a failed one's health issues are the reason."""
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


class Cluster(ResourceType):
    """A control plane."""

    type = "AWS::EKS::Cluster"
    properties = frozenset(
        {
            "AccessConfig",
            "BootstrapSelfManagedAddons",
            "DeletionProtection",
            "EncryptionConfig",
            "KubernetesNetworkConfig",
            "Logging",
            "Name",
            "ResourcesVpcConfig",
            "RoleArn",
            "Tags",
            "UpgradePolicy",
            "Version",
            "ZonalShiftConfig",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        name = properties.get("Name") or context.physical_name(100)
        request = _camel({k: v for k, v in properties.items() if k not in ("Name", "Tags")})
        if "logging" in request:
            enabled = request["logging"].get("clusterLogging", {}).get("enabledTypes", [])
            types = [item["type"] for item in enabled]
            request["logging"] = {"clusterLogging": [{"types": types, "enabled": True}]}
        if "resourcesVpcConfig" in request:
            request["resourcesVpcConfig"] = _booleans(
                request["resourcesVpcConfig"], "endpointPublicAccess", "endpointPrivateAccess"
            )
        if "accessConfig" in request:
            request["accessConfig"] = _booleans(
                request["accessConfig"], "bootstrapClusterCreatorAdminPermissions"
            )
        for flag in ("bootstrapSelfManagedAddons", "deletionProtection"):
            request = _booleans(request, flag)
        eks.create_cluster(name=name, tags=context.tags(properties.get("Tags")), **request)
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
    """A managed node group; its instances become nodes."""

    type = "AWS::EKS::Nodegroup"
    properties = frozenset(
        {
            "AmiType",
            "CapacityType",
            "ClusterName",
            "DiskSize",
            "ForceUpdateEnabled",
            "InstanceTypes",
            "Labels",
            "LaunchTemplate",
            "NodeRole",
            "NodegroupName",
            "ReleaseVersion",
            "ScalingConfig",
            "Subnets",
            "Tags",
            "Taints",
            "UpdateConfig",
            "Version",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        cluster = properties["ClusterName"]
        name = properties.get("NodegroupName") or context.physical_name(63)
        request = _camel(
            {k: v for k, v in properties.items() if k not in ("NodegroupName", "Tags")}
        )
        for section in ("scalingConfig", "updateConfig"):
            if section in request:
                request[section] = {key: int(item) for key, item in request[section].items()}
        request = _booleans(_numbers(request, "diskSize"), "forceUpdateEnabled")
        request.pop("forceUpdateEnabled", None)  # concerns updates only
        eks.create_nodegroup(
            nodegroupName=name, tags=context.tags(properties.get("Tags")), **request
        )
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
        eks.update_nodegroup_config(
            clusterName=cluster,
            nodegroupName=name,
            scalingConfig={
                key[0].lower() + key[1:]: int(item) for key, item in new["ScalingConfig"].items()
            },
        )
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
            "PreserveOnDelete",
            "ResolveConflicts",
            "ServiceAccountRoleArn",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        eks = context.client("eks")
        cluster, name = properties["ClusterName"], properties["AddonName"]
        request = _camel(
            {k: v for k, v in properties.items() if k not in ("Tags", "PreserveOnDelete")}
        )
        addon = eks.create_addon(tags=context.tags(properties.get("Tags")), **request)["addon"]
        context.begin(f"{cluster}|{name}")
        _await(context, lambda: eks.describe_addon(clusterName=cluster, addonName=name)["addon"])
        return Created(f"{cluster}|{name}", {"Arn": addon["addonArn"]})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old.get(key) != new.get(key) for key in ("AddonName", "ClusterName")):
            return None
        names = ("AddonName", "ClusterName", "AddonVersion", "ConfigurationValues")
        context.client("eks").update_addon(**_camel({key: new[key] for key in names if key in new}))
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        cluster, name = str(context.state.physical_id).split("|", 1)
        context.client("eks").delete_addon(clusterName=cluster, addonName=name)


class AccessEntry(ResourceType):
    """Who may reach a cluster's API server, and as whom."""

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
        request = _camel(
            {k: v for k, v in properties.items() if k not in ("AccessPolicies", "Tags")}
        )
        entry = eks.create_access_entry(tags=context.tags(properties.get("Tags")), **request)
        context.begin(f"{principal}|{cluster}")
        for policy in properties.get("AccessPolicies", []):
            eks.associate_access_policy(
                clusterName=cluster, principalArn=principal, **_camel(policy)
            )
        return Created(
            f"{principal}|{cluster}", {"AccessEntryArn": entry["accessEntry"]["accessEntryArn"]}
        )

    def delete(self, context: ResourceContext) -> None:
        principal, cluster = str(context.state.physical_id).rsplit("|", 1)
        context.client("eks").delete_access_entry(clusterName=cluster, principalArn=principal)


class PodIdentityAssociation(ResourceType):
    """A service account's role."""

    type = "AWS::EKS::PodIdentityAssociation"
    properties = frozenset(
        {
            "ClusterName",
            "Namespace",
            "RoleArn",
            "ServiceAccount",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        made = context.client("eks").create_pod_identity_association(
            **_camel({k: v for k, v in properties.items() if k != "Tags"}),
            tags=context.tags(properties.get("Tags")),
        )["association"]
        return Created(
            made["associationArn"],
            {
                "AssociationArn": made["associationArn"],
                "AssociationId": made["associationId"],
            },
        )

    def delete(self, context: ResourceContext) -> None:
        context.client("eks").delete_pod_identity_association(
            clusterName=context.state.properties["ClusterName"],
            associationId=context.state.attributes["AssociationId"],
        )
