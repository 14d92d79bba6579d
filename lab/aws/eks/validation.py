"""What EKS refuses in a request, with EKS's messages where they are known."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.api_errors import ApiError
from lab.aws.quotas import NODES_PER_GROUP

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_AUTHENTICATION_MODES = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")
_MOST_PUBLIC_CIDRS = 40
# The top-level names in each add-on's own schema; EKS refuses any other name.
# https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
_ADDON_VALUES = {
    "coredns": {
        "affinity",
        "autoScaling",
        "computeType",
        "corefile",
        "nodeSelector",
        "podAnnotations",
        "podDisruptionBudget",
        "podLabels",
        "replicaCount",
        "resources",
        "tolerations",
        "topologySpreadConstraints",
    },
    "kube-proxy": {"affinity", "ipvs", "mode", "podAnnotations", "podLabels", "resources"},
    "vpc-cni": {
        "affinity",
        "enableNetworkPolicy",
        "enableWindowsIpam",
        "enableWindowsPrefixDelegation",
        "eniConfig",
        "env",
        "init",
        "livenessProbeTimeoutSeconds",
        "nodeAgent",
        "podAnnotations",
        "podLabels",
        "readinessProbeTimeoutSeconds",
        "resources",
        "tolerations",
    },
}
_PROXY_MODES = ("iptables", "ipvs", "nftables")


def invalid(message: str) -> ApiError:
    """The error for a parameter that EKS does not accept."""
    return ApiError("InvalidParameterException", message)


def cluster(request: Mapping[str, Any], kms: Any) -> None:
    """Check CreateCluster's endpoint, access and encryption. Raises ApiError."""
    vpc = request.get("resourcesVpcConfig") or {}
    public = vpc.get("endpointPublicAccess", True)
    if not public and not vpc.get("endpointPrivateAccess", False):
        raise invalid("Private and public endpoint access cannot both be disabled")
    _public_cidrs(vpc.get("publicAccessCidrs") or [])
    mode = (request.get("accessConfig") or {}).get("authenticationMode") or "CONFIG_MAP"
    if mode not in _AUTHENTICATION_MODES:
        raise invalid(f"Unsupported authenticationMode {mode}")
    configurations = request.get("encryptionConfig") or []
    if len(configurations) > 1:
        raise invalid("At most one encryptionConfig may be given")
    for configuration in configurations:
        if configuration.get("resources") != ["secrets"]:
            raise invalid('The only supported value of resources in encryptionConfig is "secrets"')
        _encryption_key((configuration.get("provider") or {}).get("keyArn"), kms)


def cluster_subnets(vpc_id: str, subnets: Sequence[Mapping[str, Any]]) -> None:
    """Check a cluster's subnets, as DescribeSubnets shows them. Raises ApiError."""
    if len({subnet["AvailabilityZone"] for subnet in subnets}) < 2:
        raise invalid("Subnets specified must be in at least two different AZs")
    if any(subnet["VpcId"] != vpc_id for subnet in subnets):
        raise invalid("Subnets specified must belong to the same VPC")


def cluster_network(current: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    """Check a change of a cluster's endpoints or subnets. Raises ApiError."""
    if "subnetIds" in requested and set(requested) - {"subnetIds", "securityGroupIds"}:
        raise invalid("Only one type of update can be allowed.")
    after = {**current, **requested}
    if after == current:
        state = ", ".join(f"{key}: {value}" for key, value in requested.items())
        raise invalid(f"Cluster is already at the desired configuration with {state}")
    if not after["endpointPublicAccess"] and not after["endpointPrivateAccess"]:
        raise invalid("Private and public endpoint access cannot both be disabled")
    _public_cidrs(requested.get("publicAccessCidrs") or [])


def authentication_mode(current: str, requested: str) -> None:
    """Check a change of the authentication mode, which goes one way. Raises ApiError.

    https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    order = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
    if requested not in order or order.index(requested) != order.index(current) + 1:
        raise invalid(f"Unsupported authentication mode update from {current} to {requested}")


def cluster_version(current: str, requested: str) -> None:
    """Check a control plane's next version. Raises ApiError.

    EKS goes up one minor version at a time. It goes back one within seven days, after all nodes
    (https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html), which CloudFormation
    updates after the control plane. So the lab never goes back.
    """
    before, after = (int(version.partition(".")[2]) for version in (current, requested))
    if after != before + 1:
        raise invalid(f"Unsupported Kubernetes minor version update from {current} to {requested}")


def node_group_version(cluster_version: str, requested: str) -> None:
    """Check that nodes are not newer than their control plane. Raises ApiError."""
    before, after = (int(version.partition(".")[2]) for version in (cluster_version, requested))
    if after > before:
        # The rule is Kubernetes' version skew policy. The words are the lab's.
        raise invalid(
            f"Nodegroup version {requested} is newer than the cluster's {cluster_version}"
        )


def _public_cidrs(cidrs: Sequence[str]) -> None:
    if len(cidrs) > _MOST_PUBLIC_CIDRS:
        raise invalid(f"At most {_MOST_PUBLIC_CIDRS} publicAccessCidrs may be given")
    wrong = []
    for cidr in cidrs:
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError:
            wrong.append(cidr)
            continue
        # 0.0.0.0/0 is allowed; blocks that the Internet does not route are not.
        if network.prefixlen and network.is_private:
            wrong.append(cidr)
    if wrong:
        raise invalid(f"The following CIDRs are invalid in publicAccessCidrs: [{', '.join(wrong)}]")


def _encryption_key(arn: str | None, kms: Any) -> None:
    if not arn:
        raise invalid("The keyArn in encryptionConfig provider is required")
    try:
        key = kms.describe_key(KeyId=arn)["KeyMetadata"]
    except ClientError as error:
        detail = error.response["Error"]["Message"]
        raise invalid(f"The keyArn in encryptionConfig provider is invalid: {detail}") from error
    if not key["Enabled"] or key.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        raise invalid("The key in encryptionConfig must be symmetric and enabled")


def logging(requested: Mapping[str, Any] | None) -> dict[str, Any]:
    """Which logs are on and which are off, as DescribeCluster shows it. Raises ApiError."""
    enabled: list[str] = []
    for setup in (requested or {}).get("clusterLogging") or []:
        for kind in setup.get("types") or []:
            if kind not in _LOG_TYPES:
                raise invalid(f"Unsupported log type {kind}")
            if setup.get("enabled"):
                enabled.append(kind)
    parts = [
        {"types": [kind for kind in _LOG_TYPES if (kind in enabled) == on], "enabled": on}
        for on in (True, False)
    ]
    return {"clusterLogging": [part for part in parts if part["types"]]}


def changed_logging(
    current: Mapping[str, Any], requested: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Which logs are on and off after a change. Raises ApiError."""
    logging(requested)
    before = {kind: part["enabled"] for part in current["clusterLogging"] for kind in part["types"]}
    after = dict(before)
    for setup in (requested or {}).get("clusterLogging") or []:
        after |= dict.fromkeys(setup.get("types") or [], bool(setup.get("enabled")))
    if after == before:
        raise invalid("No changes needed for the logging config provided")
    enabled = [kind for kind, on in after.items() if on]
    return logging({"clusterLogging": [{"types": enabled, "enabled": True}]})


def scaling(sizes: Mapping[str, int]) -> None:
    """Check a node group's sizes. Raises ApiError."""
    least, desired, most = sizes["minSize"], sizes["desiredSize"], sizes["maxSize"]
    if least < 0:
        raise invalid(f"Minimum capacity {least} can't be negative")
    if most < 1:
        raise invalid(f"Maximum capacity {most} can't be less than 1")
    if least > desired:
        raise invalid(f"Minimum capacity {least} can't be greater than desired size {desired}")
    if desired > most:
        raise invalid(f"Desired capacity {desired} can't be greater than max size {most}")
    if most > NODES_PER_GROUP:
        # The number is EKS's quota. The words are the lab's, because EKS's are nowhere published.
        raise invalid(
            f"Maximum capacity {most} can't be greater than {NODES_PER_GROUP}, the quota of nodes"
            " per managed node group"
        )


def instance_types(ec2: Any, types: Sequence[str], ami_type: str) -> None:
    """Check that the types exist and run the image. Raises ApiError."""
    try:
        described = ec2.describe_instance_types(InstanceTypes=list(types))["InstanceTypes"]
    except ClientError as error:
        raise invalid(
            f"The following supplied instance types do not exist: [{', '.join(types)}]"
        ) from error
    if ami_type == "CUSTOM":
        return
    architecture = "arm64" if "ARM_64" in ami_type else "x86_64"
    for one in described:
        if architecture not in one["ProcessorInfo"]["SupportedArchitectures"]:
            raise invalid(
                f"[{one['InstanceType']}] is not a valid instance type for requested amiType"
                f" {ami_type}"
            )


def addon_schema(name: str) -> dict[str, Any]:
    """The JSON schema of an add-on's configuration, in the form of EKS's, without its depth."""
    title = "".join(part.capitalize() for part in name.split("-"))
    properties: dict[str, Any] = {key: {} for key in sorted(_ADDON_VALUES[name])}
    if name == "kube-proxy":
        properties["mode"] = {"enum": list(_PROXY_MODES), "type": "string"}
    return {
        "$ref": f"#/definitions/{title}",
        "$schema": "http://json-schema.org/draft-06/schema#",
        "definitions": {
            title: {"additionalProperties": False, "properties": properties, "type": "object"}
        },
    }


def addon(name: str, request: Mapping[str, Any], versions: Sequence[str]) -> None:
    """Check an add-on's version, one of `versions`, and its configuration. Raises ApiError."""
    version = request.get("addonVersion")
    if version and version not in versions:
        raise invalid(f"Addon version specified is not supported: {version}")
    text = request.get("configurationValues")
    if not text:
        return
    try:
        values = json.loads(text)
    except ValueError as error:
        raise invalid(
            f"ConfigurationValue provided in request is not in json format: {error}"
        ) from error
    if not isinstance(values, dict):
        raise invalid("ConfigurationValue provided in request is not a JSON object")
    faults = [
        f"$.{key}: is not defined in the schema and the schema does not allow additional properties"
        for key in values
        if key not in _ADDON_VALUES.get(name, values)
    ]
    if name == "kube-proxy" and values.get("mode", "iptables") not in _PROXY_MODES:
        faults.append(f"$.mode: does not have a value in the enumeration {list(_PROXY_MODES)}")
    if faults:
        raise invalid(
            "ConfigurationValue provided in request is not supported: Json schema validation"
            f" failed with error: [{', '.join(faults)}]"
        )
