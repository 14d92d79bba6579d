"""AWS::EKS::*: sends the EKS API's requests and waits for them as CloudFormation does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.coercion import camel_case, is_true
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging
from lab.waiting import until

_POLL_SECONDS = 0.3
_TIMEOUT_SECONDS = 900.0


def _await(context: ResourceContext, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Poll until the resource is ACTIVE. Raises ResourceFailure with its health issues."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        description = describe()
        if description["status"] == "ACTIVE":
            return description
        if description["status"].endswith(("FAILED", "DEGRADED")):
            issues = [
                f"Issue(Code={issue['code']}, Message={issue['message']},"
                f" ResourceIds={issue.get('resourceIds', [])})"
                for issue in description.get("health", {}).get("issues", [])
            ]
            raise ResourceFailure(f'Resource handler returned message: "[{"; ".join(issues)}]"')
        if context.stack.cancelled.is_set():
            raise ResourceFailure("Resource creation cancelled")
        time.sleep(_POLL_SECONDS)
    raise ResourceFailure(f"Exceeded attempts to wait: still {description['status']}")


def _until_active(call: Call, result: str) -> Callable[[ResourceContext], dict[str, Any]]:
    """Waits until a new resource is ACTIVE, and returns its description."""

    def settle(context: ResourceContext) -> dict[str, Any]:
        parameters = call.parameters(context.values())
        return _await(context, lambda: context.call("eks", call.operation, parameters)[result])

    return settle


def _until_gone(call: Call, result: str) -> Callable[[ResourceContext], None]:
    """Waits until EKS does not know a resource any more."""

    def wait(context: ResourceContext) -> None:
        parameters = call.parameters(context.values())
        missing = context.client("eks").exceptions.ResourceNotFoundException

        def is_gone() -> bool:
            try:
                description = context.call("eks", call.operation, parameters)[result]
            except missing:
                return True
            if description.get("status") == "DELETE_FAILED":
                issues = description.get("health", {}).get("issues", [])
                raise ResourceFailure("; ".join(issue["message"] for issue in issues))
            return False

        if not until(is_gone, seconds=_TIMEOUT_SECONDS, poll_seconds=_POLL_SECONDS):
            raise ResourceFailure("Exceeded attempts to wait for the deletion")

    return wait


def _prepare_cluster(context: ResourceContext, properties: Properties) -> Properties:
    if "Logging" not in properties:
        return properties
    types = _enabled_logs(properties)
    return {**properties, "Logging": {"clusterLogging": [{"types": types, "enabled": True}]}}


def _configure_cluster(context: ResourceContext, old: Properties, new: Properties) -> None:
    if not old:
        return
    for section, key in _KEPT_IN_TEMPLATES:
        if key in (old.get(section) or {}) and key not in (new.get(section) or {}):
            raise ResourceFailure(
                f"When updating a resource, you must include {section}.{key} if the previous"
                " template of the resource had it"
            )
    name = str(context.state.physical_id)
    cluster = context.client("eks").describe_cluster(name=name)["cluster"]
    for operation, request in _cluster_changes(cluster, new):
        _update(context, operation, {"name": name, **request}, {"name": name})


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
    cluster: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The updates that give a cluster its new properties, one kind in each, in order."""
    network = camel_case(new.get("ResourcesVpcConfig") or {})
    endpoint = {
        key: is_true(value) if key != "publicAccessCidrs" else value
        for key, value in network.items()
        if key in ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
    }
    if any(cluster["resourcesVpcConfig"][key] != value for key, value in endpoint.items()):
        yield "UpdateClusterConfig", {"resourcesVpcConfig": endpoint}
    subnets = network.get("subnetIds", [])
    if sorted(subnets) != sorted(cluster["resourcesVpcConfig"]["subnetIds"]):
        yield "UpdateClusterConfig", {"resourcesVpcConfig": {"subnetIds": subnets}}
    logs, enabled = cluster["logging"]["clusterLogging"], set(_enabled_logs(new))
    states = {name: setup["enabled"] for setup in logs for name in setup["types"]}
    changed = [
        {"types": types, "enabled": on}
        for on in (True, False)
        if (types := [n for n, is_on in states.items() if (n in enabled) == on and is_on != on])
    ]
    if changed:
        yield "UpdateClusterConfig", {"logging": {"clusterLogging": changed}}
    mode = (new.get("AccessConfig") or {}).get("AuthenticationMode")
    if mode and mode != cluster["accessConfig"]["authenticationMode"]:
        yield "UpdateClusterConfig", {"accessConfig": {"authenticationMode": mode}}
    policy = camel_case(new.get("UpgradePolicy") or {})
    if policy and policy != cluster["upgradePolicy"]:
        yield "UpdateClusterConfig", {"upgradePolicy": policy}
    version = str(new.get("Version") or cluster["version"])
    if version != cluster["version"]:
        yield "UpdateClusterVersion", {"version": version}


def _enabled_logs(properties: Properties) -> list[str]:
    setup = (properties.get("Logging") or {}).get("ClusterLogging") or {}
    return [item["Type"] for item in setup.get("EnabledTypes") or []]


def _update(
    context: ResourceContext, operation: str, request: dict[str, Any], updated: dict[str, str]
) -> None:
    """Change a cluster, node group or add-on, and wait for it. Raises ResourceFailure.

    `updated` has the parameters by which DescribeUpdate knows what is changed.
    """
    change = context.call("eks", operation, request)["update"]
    parameters = {**updated, "updateId": change["id"]}
    describe = context.client("eks").describe_update
    _await(context, lambda: _as_resource(describe(**parameters)["update"]))


def _as_resource(update: dict[str, Any]) -> dict[str, Any]:
    """An update's outcome in the form in which resources have theirs."""
    status = {"Successful": "ACTIVE", "Failed": "UPDATE_FAILED"}.get(update["status"], "UPDATING")
    issues = [
        {"code": error["errorCode"], "message": error["errorMessage"]} for error in update["errors"]
    ]
    return {"status": status, "health": {"issues": issues}}


def _configure_node_group(context: ResourceContext, old: Properties, new: Properties) -> None:
    if not old:
        return
    eks = context.client("eks")
    cluster, name = str(context.state.physical_id).split("/", 1)
    group = {"clusterName": cluster, "nodegroupName": name}
    description = eks.describe_nodegroup(**group)["nodegroup"]
    for operation, request in _node_group_changes(description, old, new):
        updated = {"name": cluster, "nodegroupName": name}
        _update(context, operation, {**group, **request}, updated)
    if old.get("Tags") != new.get("Tags"):
        _TAGGING.put(context, context.tags(new.get("Tags")))


def _node_group_changes(
    group: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The updates that give a node group its new properties, in order."""
    config: dict[str, Any] = {}
    for key, name in (("ScalingConfig", "scalingConfig"), ("UpdateConfig", "updateConfig")):
        if new.get(key) and old.get(key) != new.get(key):
            config[name] = camel_case(new[key])
    labels, before = new.get("Labels") or {}, group["labels"]
    if labels != before:
        removed = [key for key in before if key not in labels]
        config["labels"] = {"addOrUpdateLabels": labels, "removeLabels": removed}
    if config:
        yield "UpdateNodegroupConfig", config
    version: dict[str, Any] = {}
    if new.get("Version") and str(new["Version"]) != group["version"]:
        version["version"] = str(new["Version"])
    template = camel_case(new.get("LaunchTemplate") or {})
    if template and str(template["version"]) != str(group["launchTemplate"]["version"]):
        version["launchTemplate"] = {key: str(value) for key, value in template.items()}
    if version:
        yield "UpdateNodegroupVersion", version


def _configure_addon(context: ResourceContext, old: Properties, new: Properties) -> None:
    if old:
        request = camel_case({key: value for key, value in new.items() if key != "Tags"})
        updated = {"name": new["ClusterName"], "addonName": new["AddonName"]}
        _update(context, "UpdateAddon", request, updated)


def _configure_entry(context: ResourceContext, old: Properties, new: Properties) -> None:
    if old and "KubernetesGroups" in {*old, *new}:
        entry = {"clusterName": new["ClusterName"], "principalArn": new["PrincipalArn"]}
        groups = new.get("KubernetesGroups") or []
        context.call("eks", "UpdateAccessEntry", {**entry, "kubernetesGroups": groups})


_TAGGING = Tagging("eks", "TagResource", "resourceArn", "tags", None)
_CLUSTER = Call("DescribeCluster", name="{id}")
_NODE_GROUP = Call(
    "DescribeNodegroup", clusterName="{ClusterName}", nodegroupName="{NodegroupName}"
)
_ADDON = Call("DescribeAddon", clusterName="{ClusterName}", addonName="{AddonName}")

RESOURCES = (
    ApiResource(
        type="AWS::EKS::Cluster",
        properties=names(
            "AccessConfig BootstrapSelfManagedAddons EncryptionConfig Logging Name"
            " ResourcesVpcConfig RoleArn Tags UpgradePolicy Version"
        ),
        name=("Name", 100),
        camel=True,
        prepare=_prepare_cluster,
        creation=Call("CreateCluster"),
        id="{Name}",
        settle=_until_active(_CLUSTER, "cluster"),
        attributes={
            "Arn": "{arn}",
            "CertificateAuthorityData": "{certificateAuthority[data]}",
            "ClusterSecurityGroupId": "{resourcesVpcConfig[clusterSecurityGroupId]}",
            "Endpoint": "{endpoint}",
            "OpenIdConnectIssuerUrl": "{identity[oidc][issuer]}",
        },
        configure=_configure_cluster,
        reverts_failed_update=True,
        deletion=Call("DeleteCluster", name="{id}"),
        after_delete=_until_gone(_CLUSTER, "cluster"),
        tagging=_TAGGING,
    ),
    ApiResource(
        type="AWS::EKS::Nodegroup",
        properties=names(
            "AmiType ClusterName Labels LaunchTemplate NodeRole NodegroupName ScalingConfig Subnets"
            " Tags UpdateConfig Version"
        ),
        name=("NodegroupName", 63),
        camel=True,
        verbatim=("Labels",),
        creation=Call("CreateNodegroup"),
        id="{ClusterName}/{NodegroupName}",
        settle=_until_active(_NODE_GROUP, "nodegroup"),
        attributes={"Arn": "{nodegroupArn}", "NodegroupName": "{NodegroupName}"},
        configure=_configure_node_group,
        reverts_failed_update=True,
        deletion=Call(
            "DeleteNodegroup", clusterName="{ClusterName}", nodegroupName="{NodegroupName}"
        ),
        after_delete=_until_gone(_NODE_GROUP, "nodegroup"),
        tagging=_TAGGING,
    ),
    ApiResource(
        type="AWS::EKS::Addon",
        properties=names(
            "AddonName AddonVersion ClusterName ConfigurationValues ResolveConflicts Tags"
        ),
        camel=True,
        creation=Call("CreateAddon"),
        id="{ClusterName}|{AddonName}",
        settle=_until_active(_ADDON, "addon"),
        attributes={"Arn": "{addonArn}"},
        configure=_configure_addon,
        deletion=Call("DeleteAddon", clusterName="{ClusterName}", addonName="{AddonName}"),
        tagging=_TAGGING,
    ),
    ApiResource(
        type="AWS::EKS::AccessEntry",
        properties=names("ClusterName KubernetesGroups PrincipalArn Tags Type"),
        camel=True,
        creation=Call("CreateAccessEntry"),
        result="accessEntry",
        id="{PrincipalArn}|{ClusterName}",
        attributes={"AccessEntryArn": "{accessEntryArn}"},
        configure=_configure_entry,
        deletion=Call(
            "DeleteAccessEntry", clusterName="{ClusterName}", principalArn="{PrincipalArn}"
        ),
        tagging=replace(_TAGGING, identity="{AccessEntryArn}"),
    ),
)
