"""What EKS does: control planes, managed node groups, add-ons, access entries.

Descriptions are kept in the API's own form; work that takes time runs in threads and is
visible in `status`, as with EKS.
"""

from __future__ import annotations

import base64
import datetime
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from ..errors import ApiError
from ..services import Services
from ..substrate import ClusterLaunchError, EksBackend, EksCluster, NodeLaunchError
from . import checks
from .checks import invalid
from .nodes import Instance, launch_instances, node_spec
from .user_data import KubeletSettings, NeverJoins, WrongForm, kubelet_settings

LOG = logging.getLogger(__name__)

# Label of nodes whose network is deliberately scaled; its value is the factor.
NETWORK_SCALE_LABEL = "rackrate.dev/network-scale"
_DEFAULT_AMI_TYPE = "AL2023_x86_64_STANDARD"
_PLATFORM_VERSION = "eks.1"
# What EKS refuses in a node group's launch template, and how it says so.
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


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


@dataclass
class AccessEntry:
    """A principal's way into a cluster."""

    description: dict[str, Any]
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class NodeGroup:
    """A node group, what the API says of it, and its instances."""

    description: dict[str, Any]
    template: Mapping[str, Any]
    instances: list[Instance] = field(default_factory=list)
    updates: dict[str, dict[str, Any]] = field(default_factory=dict)
    busy: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Cluster:
    """A cluster, what the API says of it, and the control plane behind it."""

    description: dict[str, Any]
    vpc_cidrs: tuple[str, ...]
    control_plane: EksCluster | None = None
    node_groups: dict[str, NodeGroup] = field(default_factory=dict)
    addons: dict[str, dict[str, Any]] = field(default_factory=dict)
    access_entries: dict[str, AccessEntry] = field(default_factory=dict)
    pod_identities: dict[str, dict[str, Any]] = field(default_factory=dict)


class EksService:
    """All clusters of the Region."""

    def __init__(self, services: Services, backend: EksBackend, network_scale: float) -> None:
        self._services, self._backend = services, backend
        self._network_scale = network_scale
        self._lock = threading.RLock()
        self._amis: dict[str, str] = {}
        self.clusters: dict[str, Cluster] = {}

    # -- clusters

    def cluster(self, name: str) -> Cluster:
        """Raises ResourceNotFoundException."""
        found = self.clusters.get(name)
        if found is None:
            raise ApiError("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return found

    def create_cluster(self, request: Mapping[str, Any], creator_arn: str) -> dict[str, Any]:
        """Start a control plane."""
        name = request["name"]
        vpc = request.get("resourcesVpcConfig") or {}
        subnets = self._subnets(vpc.get("subnetIds") or [])
        if len({subnet["AvailabilityZone"] for subnet in subnets}) < 2:
            raise invalid("Subnets specified must be in at least two different AZs")
        vpc_id = subnets[0]["VpcId"]
        if any(subnet["VpcId"] != vpc_id for subnet in subnets):
            raise invalid("Subnets specified must belong to the same VPC")
        ec2 = self._services.clients.get("ec2")
        found = ec2.describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0]
        vpc_cidr = found["CidrBlock"]
        associated = [one["CidrBlock"] for one in found.get("CidrBlockAssociationSet", [])]
        vpc_cidrs = tuple(dict.fromkeys([vpc_cidr, *associated]))
        checks.cluster(request, self._services.clients.get("kms"))
        network = request.get("kubernetesNetworkConfig") or {}
        # EKS takes the one of the two that does not overlap with the VPC.
        default_services = "172.20.0.0/16" if vpc_cidr.startswith("10.") else "10.100.0.0/16"
        access = request.get("accessConfig") or {}
        with self._lock:
            if name in self.clusters:
                raise ApiError(
                    "ResourceInUseException", f"Cluster already exists with name: {name}"
                )
            description: dict[str, Any] = {
                "name": name,
                "arn": self._arn(f"cluster/{name}"),
                "createdAt": _now(),
                "version": request.get("version") or "1.36",
                "roleArn": request["roleArn"],
                "status": "CREATING",
                "resourcesVpcConfig": {
                    "subnetIds": [subnet["SubnetId"] for subnet in subnets],
                    "securityGroupIds": vpc.get("securityGroupIds") or [],
                    "vpcId": vpc_id,
                    "endpointPublicAccess": vpc.get("endpointPublicAccess", True),
                    "endpointPrivateAccess": vpc.get("endpointPrivateAccess", False),
                    "publicAccessCidrs": vpc.get("publicAccessCidrs") or ["0.0.0.0/0"],
                },
                "kubernetesNetworkConfig": {
                    "serviceIpv4Cidr": network.get("serviceIpv4Cidr") or default_services,
                    "ipFamily": network.get("ipFamily") or "ipv4",
                },
                "logging": checks.logging(request.get("logging")),
                "identity": {
                    "oidc": {
                        "issuer": f"https://oidc.eks.{self._services.region}.amazonaws.com/id/"
                        + uuid.uuid4().hex.upper()
                    }
                },
                "platformVersion": _PLATFORM_VERSION,
                "tags": request.get("tags") or {},
                "health": {"issues": []},
                "accessConfig": {
                    "authenticationMode": access.get("authenticationMode") or "CONFIG_MAP",
                    "bootstrapClusterCreatorAdminPermissions": access.get(
                        "bootstrapClusterCreatorAdminPermissions", True
                    ),
                },
                "upgradePolicy": request.get("upgradePolicy") or {"supportType": "EXTENDED"},
            }
            for key in ("encryptionConfig", "zonalShiftConfig"):
                if request.get(key):
                    description[key] = request[key]
            cluster = self.clusters[name] = Cluster(description, vpc_cidrs)
        group = ec2.create_security_group(
            GroupName=f"eks-cluster-sg-{name}-{uuid.uuid4().int % 10**9}",
            Description="EKS created security group applied to ENI that is attached to EKS"
            " Control Plane master nodes, as well as any managed workloads.",
            VpcId=vpc_id,
        )["GroupId"]
        description["resourcesVpcConfig"]["clusterSecurityGroupId"] = group
        if description["accessConfig"]["bootstrapClusterCreatorAdminPermissions"]:
            self._put_access_entry(cluster, creator_arn, creator_arn, [], {})
            self._associate(
                cluster, creator_arn, "AmazonEKSClusterAdminPolicy", {"type": "cluster"}
            )
        self._in_background(lambda: self._start(cluster))
        return description

    def _start(self, cluster: Cluster) -> None:
        description = cluster.description
        name = description["name"]
        try:
            plane = self._backend.create_cluster(
                name=name,
                version=description["version"],
                vpc_cidrs=cluster.vpc_cidrs,
                service_cidr=description["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
                authentication_webhook_url=(
                    f"{self._services.endpoint_url}/_lab/eks/{name}/token-review"
                ),
            )
        except Exception as error:
            if not isinstance(error, ClusterLaunchError):
                LOG.exception("cluster %s", name)
            description["health"]["issues"] = [
                {
                    "code": "InternalFailure",
                    "message": f"{type(error).__name__}: {error}",
                    "resourceIds": [name],
                }
            ]
            description["status"] = "FAILED"
            return
        cluster.control_plane = plane
        description["endpoint"] = plane.endpoint
        description["certificateAuthority"] = {
            "data": base64.b64encode(plane.certificate_authority.encode()).decode()
        }
        description["status"] = "ACTIVE"

    def delete_cluster(self, name: str) -> dict[str, Any]:
        """Stop a control plane that has no node groups left."""
        cluster = self.cluster(name)
        if cluster.node_groups:
            raise ApiError("ResourceInUseException", "Cluster has nodegroups attached")
        if cluster.description["status"] == "CREATING":
            raise ApiError(
                "ResourceInUseException", f"Cluster {name} is being created; wait and try again"
            )
        cluster.description["status"] = "DELETING"

        def stop() -> None:
            if cluster.control_plane is not None:
                cluster.control_plane.stop()
            group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
            try:
                self._services.clients.get("ec2").delete_security_group(GroupId=group)
            except ClientError:
                LOG.warning("security group %s of cluster %s stays", group, name)
            del self.clusters[name]

        self._in_background(stop)
        return cluster.description

    # -- node groups

    def node_group(self, cluster_name: str, name: str) -> NodeGroup:
        """Raises ResourceNotFoundException."""
        found = self.cluster(cluster_name).node_groups.get(name)
        if found is None:
            raise ApiError("ResourceNotFoundException", f"No node group found for name: {name}.")
        return found

    def create_node_group(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch instances and wait in the background for their nodes."""
        cluster_name, name = request["clusterName"], request["nodegroupName"]
        cluster = self.cluster(cluster_name)
        if cluster.description["status"] != "ACTIVE":
            raise ApiError(
                "InvalidRequestException",
                f"Cluster {cluster_name} is {cluster.description['status']}, not ACTIVE",
            )
        subnets = self._subnets(request.get("subnets") or [])
        template, version = self._template(request)
        types = self._instance_types(request, template)
        scaling = {"minSize": 1, "maxSize": 2, "desiredSize": 2, **request.get("scalingConfig", {})}
        checks.scaling(scaling)
        ami_type = "CUSTOM" if template.get("ImageId") else request.get("amiType")
        if template.get("ImageId") and request.get("amiType") not in (None, "CUSTOM"):
            raise invalid(
                "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in"
                " your launch template."
            )
        checks.instance_types(
            self._services.clients.get("ec2"), types, ami_type or _DEFAULT_AMI_TYPE
        )
        description: dict[str, Any] = {
            "nodegroupName": name,
            "nodegroupArn": self._arn(f"nodegroup/{cluster_name}/{name}/{uuid.uuid4()}"),
            "clusterName": cluster_name,
            "version": request.get("version") or cluster.description["version"],
            "releaseVersion": request.get("releaseVersion"),
            "createdAt": _now(),
            "modifiedAt": _now(),
            "status": "CREATING",
            "capacityType": request.get("capacityType") or "ON_DEMAND",
            "scalingConfig": scaling,
            "instanceTypes": types if not template.get("InstanceType") else None,
            "subnets": [subnet["SubnetId"] for subnet in subnets],
            "amiType": ami_type or _DEFAULT_AMI_TYPE,
            "nodeRole": request["nodeRole"],
            "labels": request.get("labels") or {},
            "taints": request.get("taints") or [],
            "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{uuid.uuid4()}"}]},
            "health": {"issues": []},
            "updateConfig": request.get("updateConfig") or {"maxUnavailable": 1},
            "tags": request.get("tags") or {},
        }
        if version:
            description["launchTemplate"] = {
                "id": version["LaunchTemplateId"],
                "name": version["LaunchTemplateName"],
                "version": str(version["VersionNumber"]),
            }
        else:
            description["diskSize"] = request.get("diskSize") or 20
        with self._lock:
            if name in cluster.node_groups:
                raise ApiError(
                    "ResourceInUseException",
                    f"NodeGroup already exists with name {name} and cluster name {cluster_name}",
                )
            group = cluster.node_groups[name] = NodeGroup(
                description, {**template, "InstanceType": types[0]}
            )
        self._ensure_node_access(cluster, request["nodeRole"])
        self._in_background(lambda: self._scale(cluster, group, "CREATE_FAILED"))
        return description

    def _template(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The launch template's data and version, checked; empty without one."""
        wanted = request.get("launchTemplate")
        if not wanted:
            return {}, {}
        if wanted.get("id") and wanted.get("name"):
            raise invalid("You must specify either launch template id or name, not both.")
        if request.get("diskSize"):
            raise invalid("Disk size must be specified within the launch template.")
        if request.get("remoteAccess"):
            raise invalid("Remote access configuration cannot be specified with a launch template.")
        by = (
            {"LaunchTemplateId": wanted["id"]}
            if wanted.get("id")
            else {"LaunchTemplateName": wanted.get("name")}
        )
        try:
            found = self._services.clients.get("ec2").describe_launch_template_versions(
                Versions=[wanted.get("version") or "$Default"], **by
            )
        except ClientError as error:
            raise invalid(error.response["Error"]["Message"]) from error
        version = found["LaunchTemplateVersions"][0]
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

    @staticmethod
    def _instance_types(request: Mapping[str, Any], template: Mapping[str, Any]) -> list[str]:
        types = list(request.get("instanceTypes") or [])
        if types and template.get("InstanceType"):
            raise invalid(
                "Instance types can only be specified in one of the launch template and the"
                " managed node group configuration, not in both."
            )
        if template.get("InstanceType"):
            return [str(template["InstanceType"])]
        return types or ["t3.medium"]

    def _scale(self, cluster: Cluster, group: NodeGroup, failure: str) -> None:
        """Bring a node group to its desired size."""
        description = group.description
        try:
            with group.busy:
                wanted = description["scalingConfig"]["desiredSize"]
                surplus = group.instances[wanted:]
                if surplus:
                    self._terminate(cluster, group, surplus)
                missing = wanted - len(group.instances)
                if missing > 0:
                    self._launch(cluster, group, missing)
        except _NodeGroupIssue as issue:
            self._report(group, failure, issue.code, str(issue), issue.resources)
        except Exception as error:
            LOG.exception("node group %s", description["nodegroupName"])
            self._report(group, failure, "InternalFailure", f"{type(error).__name__}: {error}", [])
        else:
            description["health"]["issues"] = []
            description["modifiedAt"] = _now()
            description["status"] = "ACTIVE"

    @staticmethod
    def _report(
        group: NodeGroup, status: str, code: str, message: str, resources: list[str]
    ) -> None:
        group.description["health"]["issues"] = [
            {"code": code, "message": message, "resourceIds": resources}
        ]
        group.description["status"] = status

    def _launch(self, cluster: Cluster, group: NodeGroup, count: int) -> None:
        description = group.description
        asg = description["resources"]["autoScalingGroups"][0]["name"]
        image_id = group.template.get("ImageId") or self._ami(
            description["version"], description["amiType"]
        )
        try:
            kubelet: KubeletSettings | NeverJoins = kubelet_settings(
                group.template.get("UserData"), description["amiType"]
            )
        except WrongForm as error:
            raise _NodeGroupIssue(
                "Ec2LaunchTemplateInvalidConfiguration", str(error), [asg]
            ) from error
        except NeverJoins as error:
            kubelet = error  # such an instance is launched, and only then found out
        try:
            instances = launch_instances(
                self._services,
                self._backend,
                description=description,
                template=group.template,
                image_id=image_id,
                cluster_security_group=cluster.description["resourcesVpcConfig"][
                    "clusterSecurityGroupId"
                ],
                count=count,
                started=group.instances.append,
            )
        except ClientError as error:
            details = error.response["Error"]
            raise _NodeGroupIssue(
                "AsgInstanceLaunchFailures",
                f"Could not launch On-Demand Instances. {details['Code']} - {details['Message']}"
                " Launching EC2 instance failed.",
                [asg],
            ) from error
        except NodeLaunchError as error:
            raise _NodeGroupIssue("InsufficientFreeAddresses", str(error), [asg]) from error
        joining = [instance.instance_id for instance in instances]
        if isinstance(kubelet, NeverJoins):
            raise _never_joined(kubelet, joining)
        labels = {
            **description["labels"],
            "eks.amazonaws.com/nodegroup": description["nodegroupName"],
            "eks.amazonaws.com/nodegroup-image": image_id,
            "eks.amazonaws.com/capacityType": description["capacityType"],
        }
        if "launchTemplate" in description:
            labels["eks.amazonaws.com/sourceLaunchTemplateId"] = description["launchTemplate"]["id"]
            labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = description["launchTemplate"][
                "version"
            ]
        if self._network_scale != 1.0:
            labels[NETWORK_SCALE_LABEL] = f"{self._network_scale:g}"
        specs = [
            node_spec(instance, labels, description["taints"], self._services.region, kubelet)
            for instance in instances
        ]
        if cluster.control_plane is None:
            raise NodeLaunchError(f"cluster {cluster.description['name']} has no control plane")
        try:
            cluster.control_plane.launch_nodes(specs)
        except NodeLaunchError as error:
            raise _never_joined(error, joining) from error

    def _terminate(self, cluster: Cluster, group: NodeGroup, instances: list[Instance]) -> None:
        if not instances:
            return
        if cluster.control_plane is not None:
            cluster.control_plane.terminate_nodes([instance.name for instance in instances])
        self._services.clients.get("ec2").terminate_instances(
            InstanceIds=[instance.instance_id for instance in instances]
        )
        for instance in instances:
            self._backend.release_block(instance.block)
        group.instances = [i for i in group.instances if i not in instances]

    def update_node_group(
        self, cluster_name: str, name: str, scaling: Mapping[str, int] | None
    ) -> dict[str, Any]:
        """Change a node group's size."""
        cluster, group = self.cluster(cluster_name), self.node_group(cluster_name, name)
        if group.description["status"] not in ("ACTIVE", "DEGRADED"):
            raise ApiError(
                "ResourceInUseException",
                "Nodegroup cannot be updated as it is currently not in Active State",
            )
        wanted = {**group.description["scalingConfig"], **(scaling or {})}
        checks.scaling(wanted)
        update: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "status": "InProgress",
            "type": "ConfigUpdate",
            "params": [
                {"type": key[0].upper() + key[1:], "value": str(value)}
                for key, value in (scaling or {}).items()
            ],
            "createdAt": _now(),
            "errors": [],
        }
        asked = dict(update)
        group.updates[update["id"]] = update
        group.description["scalingConfig"] = wanted
        group.description["status"] = "UPDATING"

        def scale() -> None:
            self._scale(cluster, group, "DEGRADED")
            issues = group.description["health"]["issues"]
            update["errors"] = [
                {
                    # UpdateConfig has error codes of its own, fewer than health issues have.
                    "errorCode": issue["code"]
                    if issue["code"] == "NodeCreationFailure"
                    else "Unknown",
                    "errorMessage": issue["message"],
                    "resourceIds": issue["resourceIds"],
                }
                for issue in issues
            ]
            update["status"] = "Failed" if issues else "Successful"

        self._in_background(scale)
        return asked

    def update(self, cluster_name: str, group_name: str | None, update_id: str) -> dict[str, Any]:
        """One update of a node group. Raises ResourceNotFoundException."""
        self.cluster(cluster_name)
        updates = self.node_group(cluster_name, group_name).updates if group_name else {}
        if update_id not in updates:
            raise ApiError("ResourceNotFoundException", f"No update found for ID: {update_id}")
        return updates[update_id]

    def delete_node_group(self, cluster_name: str, name: str) -> dict[str, Any]:
        """Terminate a node group's instances."""
        cluster, group = self.cluster(cluster_name), self.node_group(cluster_name, name)
        if group.description["status"] == "DELETING":
            raise ApiError("ResourceInUseException", f"Nodegroup {name} is being deleted")
        group.description["status"] = "DELETING"

        def remove() -> None:
            try:
                with group.busy:
                    self._terminate(cluster, group, list(group.instances))
            except Exception as error:
                LOG.exception("deleting node group %s", name)
                self._report(
                    group,
                    "DELETE_FAILED",
                    "InternalFailure",
                    f"{type(error).__name__}: {error}",
                    [],
                )
            else:
                del cluster.node_groups[name]

        self._in_background(remove)
        return group.description

    # -- add-ons

    def create_addon(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Note an add-on. The lab's nodes bring their own networking and DNS."""
        cluster, name = self.cluster(request["clusterName"]), request["addonName"]
        if name in cluster.addons:
            raise ApiError("ResourceInUseException", f"Addon already exists: {name}")
        checks.addon(name, request)
        addon = {
            "addonName": name,
            "clusterName": request["clusterName"],
            "status": "ACTIVE",
            "addonVersion": request.get("addonVersion") or "v1.0.0-eksbuild.1",
            "health": {"issues": []},
            "addonArn": self._arn(f"addon/{request['clusterName']}/{name}/{uuid.uuid4()}"),
            "createdAt": _now(),
            "modifiedAt": _now(),
            "serviceAccountRoleArn": request.get("serviceAccountRoleArn"),
            "tags": request.get("tags") or {},
            "configurationValues": request.get("configurationValues"),
        }
        cluster.addons[name] = addon
        return addon

    def update_addon(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Change an add-on's version or configuration."""
        addon = self.addon(request["clusterName"], request["addonName"])
        checks.addon(request["addonName"], request)
        changed = {
            name: request[name]
            for name in ("addonVersion", "configurationValues", "serviceAccountRoleArn")
            if request.get(name) is not None
        }
        addon.update(changed, modifiedAt=_now())
        return {
            "id": str(uuid.uuid4()),
            "status": "Successful",
            "type": "AddonUpdate",
            "params": [
                {"type": key[0].upper() + key[1:], "value": value} for key, value in changed.items()
            ],
            "createdAt": _now(),
            "errors": [],
        }

    def addon(self, cluster_name: str, name: str) -> dict[str, Any]:
        """Raises ResourceNotFoundException."""
        found = self.cluster(cluster_name).addons.get(name)
        if found is None:
            raise ApiError(
                "ResourceNotFoundException", f"No addon: {name} found in cluster: {cluster_name}"
            )
        return found

    # -- access

    def create_access_entry(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Let a principal in."""
        cluster = self.cluster(request["clusterName"])
        self._require_access_api(cluster)
        principal = request["principalArn"]
        if principal in cluster.access_entries:
            raise ApiError(
                "ResourceInUseException",
                "The specified access entry resource is already in use on this cluster.",
            )
        kind = request.get("type") or "STANDARD"
        groups = request.get("kubernetesGroups") or []
        if kind != "STANDARD" and groups:
            raise invalid(f"Access entries of type {kind} take no kubernetesGroups")
        reserved = [group for group in groups if group.startswith("system:")]
        if reserved:
            raise invalid(
                f"The kubernetes group name {reserved[0]} is invalid, it cannot start with system:"
            )
        entry = self._put_access_entry(
            cluster, principal, request.get("username"), groups, request.get("tags") or {}, kind
        )
        return entry.description

    def _put_access_entry(
        self,
        cluster: Cluster,
        principal: str,
        username: str | None,
        groups: list[str],
        tags: dict[str, str],
        kind: str = "STANDARD",
    ) -> AccessEntry:
        name = cluster.description["name"]
        if username is None:
            # As EKS: a role's user name carries the session's.
            username = principal
            if ":role/" in principal:
                account = principal.split(":")[4]
                role = principal.rsplit("/", 1)[1]
                username = f"arn:aws:sts::{account}:assumed-role/{role}/{{{{SessionName}}}}"
        entry = AccessEntry(
            {
                "clusterName": name,
                "principalArn": principal,
                "kubernetesGroups": groups,
                "accessEntryArn": self._arn(
                    f"access-entry/{name}/{principal.split(':')[-1]}/{uuid.uuid4()}"
                ),
                "createdAt": _now(),
                "modifiedAt": _now(),
                "tags": tags,
                "username": username,
                "type": kind,
            }
        )
        cluster.access_entries[principal] = entry
        return entry

    def _ensure_node_access(self, cluster: Cluster, role: str) -> None:
        """EKS makes the node role's own entry in clusters of the access-entry API."""
        mode = cluster.description["accessConfig"]["authenticationMode"]
        if mode != "CONFIG_MAP" and role not in cluster.access_entries:
            self._put_access_entry(
                cluster,
                role,
                "system:node:{{EC2PrivateDNSName}}",
                ["system:nodes"],
                {},
                "EC2_LINUX",
            )

    @staticmethod
    def _require_access_api(cluster: Cluster) -> None:
        if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
            raise ApiError(
                "InvalidRequestException",
                "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
                " to perform this operation.",
            )

    def access_entry(self, cluster_name: str, principal: str) -> AccessEntry:
        """Raises ResourceNotFoundException."""
        found = self.cluster(cluster_name).access_entries.get(principal)
        if found is None:
            raise ApiError(
                "ResourceNotFoundException",
                f"The specified principalArn could not be found: {principal}.",
            )
        return found

    def associate_access_policy(
        self, cluster_name: str, principal: str, policy: str, scope: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Give an entry one of EKS's access policies."""
        cluster = self.cluster(cluster_name)
        self._require_access_api(cluster)
        self.access_entry(cluster_name, principal)
        name = policy.rsplit("/", 1)[-1]
        if policy != _policy_arn(name):
            raise invalid(f"The policyArn parameter format is not valid: {policy}")
        return self._associate(cluster, principal, name, scope)

    @staticmethod
    def _associate(
        cluster: Cluster, principal: str, policy: str, scope: Mapping[str, Any]
    ) -> dict[str, Any]:
        association = {
            "policyArn": _policy_arn(policy),
            "accessScope": {"type": scope["type"], "namespaces": scope.get("namespaces") or []},
            "associatedAt": _now(),
            "modifiedAt": _now(),
        }
        cluster.access_entries[principal].policies[_policy_arn(policy)] = association
        return association

    # -- helpers

    def _subnets(self, subnet_ids: list[str]) -> list[dict[str, Any]]:
        if not subnet_ids:
            raise invalid("Subnets are required")
        try:
            found = self._services.clients.get("ec2").describe_subnets(SubnetIds=subnet_ids)
        except ClientError as error:
            raise invalid(error.response["Error"]["Message"]) from error
        return list(found["Subnets"])

    def _ami(self, version: str, ami_type: str) -> str:
        """The image EKS chooses for this version and type; registered once per pair."""
        name = f"amazon-eks-node-{ami_type.lower().replace('_', '-')}-{version}-v20260701"
        with self._lock:
            if name not in self._amis:
                self._amis[name] = self._services.clients.get("ec2").register_image(
                    Name=name, Architecture="arm64" if "ARM" in ami_type.upper() else "x86_64"
                )["ImageId"]
            return self._amis[name]

    def _arn(self, resource: str) -> str:
        return f"arn:aws:eks:{self._services.region}:{self._services.account_id}:{resource}"

    @staticmethod
    def _in_background(work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="eks", daemon=True).start()


def _never_joined(why: Exception, instance_ids: list[str]) -> _NodeGroupIssue:
    return _NodeGroupIssue(
        "NodeCreationFailure",
        f"Instances failed to join the kubernetes cluster: {why}",
        instance_ids,
    )


class _NodeGroupIssue(Exception):
    """A health issue of a node group."""

    def __init__(self, code: str, message: str, resources: list[str]) -> None:
        super().__init__(message)
        self.code, self.resources = code, resources


def _policy_arn(name: str) -> str:
    return f"arn:aws:eks::aws:cluster-access-policy/{name}"
