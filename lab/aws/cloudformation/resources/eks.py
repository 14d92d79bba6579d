"""AWS::EKS::*: sends the EKS API's requests and waits for them as CloudFormation does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from lab.aws.cloudformation.coercion import camel_case, is_true
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

_POLL_SECONDS = 0.3
_TIMEOUT_SECONDS = 900.0
# Members whose keys are the user's own, so they keep their spelling.
_VERBATIM = {"Labels", "Tags"}


def _request(properties: Properties, *without: str) -> dict[str, Any]:
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
            "UpgradePolicy",
            "Version",
        }
    )
    name_property = "Name"
    reverts_failed_update = True

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        eks = context.client("eks")
        name = properties.get("Name") or context.physical_name(100)
        request = _request(properties, "Name", "Tags")
        if "logging" in request:
            types = _enabled_logs(properties)
            request["logging"] = {"clusterLogging": [{"types": types, "enabled": True}]}
        tags = context.tags(properties.get("Tags"))
        context.call("eks", "CreateCluster", {**request, "name": name, "tags": tags})
        context.begin(name)
        cluster = _await(context, lambda: eks.describe_cluster(name=name)["cluster"])
        return Created(name, _cluster_attributes(cluster))

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        for section, key in _KEPT_IN_TEMPLATES:
            if key in (old.get(section) or {}) and key not in (new.get(section) or {}):
                raise ResourceFailure(
                    f"When updating a resource, you must include {section}.{key} if the previous"
                    " template of the resource had it"
                )
        eks, name = context.client("eks"), str(context.state.physical_id)
        for operation, request in _cluster_changes(eks.describe_cluster(name=name)["cluster"], new):
            change = context.call("eks", operation, {"name": name, **request})["update"]
            _await_update(context, {"name": name, "updateId": change["id"]})

    def delete(self, context: ResourceContext) -> None:
        eks, name = context.client("eks"), context.state.physical_id
        eks.delete_cluster(name=name)
        _await_gone(
            lambda: eks.describe_cluster(name=name)["cluster"],
            eks.exceptions.ResourceNotFoundException,
        )


# What a template must keep if it once had it.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-cluster-resourcesvpcconfig.html
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-cluster-clusterlogging.html
_KEPT_IN_TEMPLATES = (
    ("ResourcesVpcConfig", "EndpointPublicAccess"),
    ("ResourcesVpcConfig", "EndpointPrivateAccess"),
    ("ResourcesVpcConfig", "PublicAccessCidrs"),
    ("Logging", "ClusterLogging"),
)


def _cluster_changes(
    found: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The updates that give a cluster its new properties, one kind in each, in order."""
    network = camel_case(new.get("ResourcesVpcConfig") or {})
    endpoint = {
        key: is_true(value) if key != "publicAccessCidrs" else value
        for key, value in network.items()
        if key in ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
    }
    if any(found["resourcesVpcConfig"][key] != value for key, value in endpoint.items()):
        yield "UpdateClusterConfig", {"resourcesVpcConfig": endpoint}
    subnets = network.get("subnetIds", [])
    if sorted(subnets) != sorted(found["resourcesVpcConfig"]["subnetIds"]):
        yield "UpdateClusterConfig", {"resourcesVpcConfig": {"subnetIds": subnets}}
    logs, wanted = found["logging"]["clusterLogging"], set(_enabled_logs(new))
    states = {name: setup["enabled"] for setup in logs for name in setup["types"]}
    changed = [
        {"types": types, "enabled": on}
        for on in (True, False)
        if (types := [n for n, is_on in states.items() if (n in wanted) == on and is_on != on])
    ]
    if changed:
        yield "UpdateClusterConfig", {"logging": {"clusterLogging": changed}}
    mode = (new.get("AccessConfig") or {}).get("AuthenticationMode")
    if mode and mode != found["accessConfig"]["authenticationMode"]:
        yield "UpdateClusterConfig", {"accessConfig": {"authenticationMode": mode}}
    policy = camel_case(new.get("UpgradePolicy") or {})
    if policy and policy != found["upgradePolicy"]:
        yield "UpdateClusterConfig", {"upgradePolicy": policy}
    version = str(new.get("Version") or found["version"])
    if version != found["version"]:
        yield "UpdateClusterVersion", {"version": version}


def _enabled_logs(properties: Properties) -> list[str]:
    setup = (properties.get("Logging") or {}).get("ClusterLogging") or {}
    return [item["Type"] for item in setup.get("EnabledTypes") or []]


def _await_update(context: ResourceContext, request: dict[str, str]) -> None:
    """Wait for an update of a cluster, node group or add-on. Raises ResourceFailure."""
    eks = context.client("eks")
    _await(context, lambda: _as_resource(eks.describe_update(**request)["update"]))


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
            "UpdateConfig",
            "Version",
        }
    )
    name_property = "NodegroupName"
    reverts_failed_update = True

    def create(self, context: ResourceContext, properties: Properties) -> Created:
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

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        eks = context.client("eks")
        cluster, name = str(context.state.physical_id).split("/", 1)
        group = {"clusterName": cluster, "nodegroupName": name}
        found = eks.describe_nodegroup(**group)["nodegroup"]
        for operation, request in _node_group_changes(found, old, new):
            change = context.call("eks", operation, {**group, **request})["update"]
            _await_update(
                context, {"name": cluster, "nodegroupName": name, "updateId": change["id"]}
            )
        if old.get("Tags") != new.get("Tags"):
            eks.tag_resource(resourceArn=found["nodegroupArn"], tags=context.tags(new.get("Tags")))

    def delete(self, context: ResourceContext) -> None:
        eks = context.client("eks")
        cluster, name = str(context.state.physical_id).split("/", 1)
        eks.delete_nodegroup(clusterName=cluster, nodegroupName=name)
        _await_gone(
            lambda: eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"],
            eks.exceptions.ResourceNotFoundException,
        )


def _node_group_changes(
    found: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The updates that give a node group its new properties, in order."""
    config: dict[str, Any] = {}
    for key, name in (("ScalingConfig", "scalingConfig"), ("UpdateConfig", "updateConfig")):
        if new.get(key) and old.get(key) != new.get(key):
            config[name] = camel_case(new[key])
    labels, before = new.get("Labels") or {}, found["labels"]
    if labels != before:
        gone = [key for key in before if key not in labels]
        config["labels"] = {"addOrUpdateLabels": labels, "removeLabels": gone}
    if config:
        yield "UpdateNodegroupConfig", config
    version: dict[str, Any] = {}
    if new.get("Version") and str(new["Version"]) != found["version"]:
        version["version"] = str(new["Version"])
    template = camel_case(new.get("LaunchTemplate") or {})
    if template and str(template["version"]) != str(found["launchTemplate"]["version"]):
        version["launchTemplate"] = {key: str(value) for key, value in template.items()}
    if version:
        yield "UpdateNodegroupVersion", version


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

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        eks = context.client("eks")
        cluster, name = properties["ClusterName"], properties["AddonName"]
        request = _request(properties, "Tags")
        addon = eks.create_addon(tags=context.tags(properties.get("Tags")), **request)["addon"]
        context.begin(f"{cluster}|{name}")
        _await(context, lambda: eks.describe_addon(clusterName=cluster, addonName=name)["addon"])
        return Created(f"{cluster}|{name}", {"Arn": addon["addonArn"]})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        eks = context.client("eks")
        cluster, name = new["ClusterName"], new["AddonName"]
        change = eks.update_addon(**_request(new, "Tags"))["update"]
        _await_update(context, {"name": cluster, "addonName": name, "updateId": change["id"]})

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

    def create(self, context: ResourceContext, properties: Properties) -> Created:
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

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        eks = context.client("eks")
        entry = {"clusterName": new["ClusterName"], "principalArn": new["PrincipalArn"]}
        if "Username" in new or "KubernetesGroups" in {*old, *new}:
            named = {"username": new["Username"]} if "Username" in new else {}
            groups = new.get("KubernetesGroups") or []
            eks.update_access_entry(**entry, **named, kubernetesGroups=groups)
        kept = [policy["PolicyArn"] for policy in new.get("AccessPolicies", [])]
        for policy in old.get("AccessPolicies", []):
            if policy["PolicyArn"] not in kept:
                eks.disassociate_access_policy(**entry, policyArn=policy["PolicyArn"])
        for policy in new.get("AccessPolicies", []):
            eks.associate_access_policy(**entry, **camel_case(policy))

    def delete(self, context: ResourceContext) -> None:
        principal, cluster = str(context.state.physical_id).rsplit("|", 1)
        context.client("eks").delete_access_entry(clusterName=cluster, principalArn=principal)
