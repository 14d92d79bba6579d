"""Creates, updates and deletes clusters, with work on their control planes in the background."""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.account import REGION, arn
from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.eks import access_entries, control_plane_logs, validation
from lab.aws.eks.clusters import Cluster, Clusters, in_background, subnets_of
from lab.aws.eks.infrastructure import ClusterLaunchError, Infrastructure
from lab.aws.eks.validation import invalid

LOG = logging.getLogger(__name__)

_PLATFORM_VERSION = "eks.1"


class ControlPlanes:
    """Creates, updates and deletes clusters."""

    def __init__(
        self,
        clusters: Clusters,
        clients: ClientFactory,
        infrastructure: Infrastructure,
    ) -> None:
        self._clusters, self._clients = clusters, clients
        self._infrastructure = infrastructure

    def create(self, request: Mapping[str, Any], creator_arn: str) -> dict[str, Any]:
        """Start a control plane."""
        vpc = request.get("resourcesVpcConfig") or {}
        subnets = subnets_of(self._clients, vpc.get("subnetIds") or [])
        vpc_id = subnets[0]["VpcId"]
        validation.cluster_subnets(vpc_id, subnets)
        vpc_cidrs = self._cidrs(vpc_id)
        validation.cluster(request, self._clients.get("kms"))
        description = _description(request, subnets, vpc_cidrs[0])
        cluster = Cluster(description, vpc_cidrs)
        self._clusters.add(cluster)
        group = self._clients.get("ec2").create_security_group(
            GroupName=f"eks-cluster-sg-{request['name']}-{uuid.uuid4().int % 10**9}",
            Description="EKS created security group applied to ENI that is attached to EKS"
            " Control Plane master nodes, as well as any managed workloads.",
            VpcId=vpc_id,
        )["GroupId"]
        description["resourcesVpcConfig"]["clusterSecurityGroupId"] = group
        if description["accessConfig"]["bootstrapClusterCreatorAdminPermissions"]:
            entry = access_entries.put(cluster, creator_arn, username=creator_arn)
            access_entries.associate(
                entry, access_entries.CLUSTER_ADMIN_POLICY, {"type": "cluster"}
            )
        in_background(lambda: self._start(cluster))
        return description

    def _cidrs(self, vpc_id: str) -> tuple[str, ...]:
        """A VPC's address blocks, the primary one first."""
        vpc = self._clients.get("ec2").describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0]
        associated = [block["CidrBlock"] for block in vpc.get("CidrBlockAssociationSet", [])]
        return tuple(dict.fromkeys([vpc["CidrBlock"], *associated]))

    def _start(self, cluster: Cluster) -> None:
        description = cluster.description
        name, services = description["name"], description["kubernetesNetworkConfig"]
        try:
            plane = self._infrastructure.create_cluster(
                name=name,
                version=description["version"],
                vpc_cidrs=cluster.vpc_cidrs,
                service_cidr=services.get("serviceIpv6Cidr") or services["serviceIpv4Cidr"],
                authentication_webhook_url=(
                    f"{self._clients.endpoint_url}/_lab/eks/{name}/token-review"
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
        control_plane_logs.begin(description)
        description["endpoint"] = plane.endpoint
        description["certificateAuthority"] = {
            "data": base64.b64encode(plane.certificate_authority.encode()).decode()
        }
        description["status"] = "ACTIVE"

    def update_config(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Change endpoints or subnets, logs, how users authenticate, or the kind of support."""
        cluster = self._updatable(request["name"])
        changeable = ("resourcesVpcConfig", "logging", "accessConfig", "upgradePolicy")
        kinds = [key for key in changeable if request.get(key)]
        if len(kinds) != 1:
            raise invalid("Only one type of update can be allowed.")
        (kind,), description = kinds, cluster.description
        change = request[kind]
        if kind == "logging":
            merged = validation.changed_logging(description["logging"], change)
            return self._begin(cluster, "LoggingUpdate", change, {"logging": merged})
        if kind == "accessConfig":
            mode = change["authenticationMode"]
            validation.authentication_mode(description["accessConfig"]["authenticationMode"], mode)
            changed = {**description["accessConfig"], "authenticationMode": mode}
            return self._begin(cluster, "AccessConfigUpdate", change, {"accessConfig": changed})
        if kind == "upgradePolicy":
            return self._begin(cluster, "UpgradePolicyUpdate", change, {"upgradePolicy": change})
        network = description["resourcesVpcConfig"]
        validation.cluster_network(network, change)
        if "subnetIds" in change:
            subnets = subnets_of(self._clients, change["subnetIds"])
            validation.cluster_subnets(network["vpcId"], subnets)
        kind = "VpcConfigUpdate" if "subnetIds" in change else "EndpointAccessUpdate"
        return self._begin(cluster, kind, change, {"resourcesVpcConfig": {**network, **change}})

    def update_version(self, name: str, version: str) -> dict[str, Any]:
        """Give a control plane the next Kubernetes version."""
        cluster = self._updatable(name)
        validation.cluster_version(cluster.description["version"], version)
        requested = {"version": version}
        return self._begin(cluster, "VersionUpdate", requested, requested)

    def _updatable(self, name: str) -> Cluster:
        cluster = self._clusters.find(name)
        if cluster.description["status"] != "ACTIVE":
            raise ApiError(
                "ResourceInUseException",
                f"Cluster {name} is {cluster.description['status']} and cannot be updated",
            )
        return cluster

    def _begin(
        self, cluster: Cluster, kind: str, parameters: Mapping[str, Any], changes: dict[str, Any]
    ) -> dict[str, Any]:
        change = cluster.updates.begin(kind, parameters)
        response = dict(change)
        cluster.description["status"] = "UPDATING"

        def run() -> None:
            try:
                if "version" in changes and cluster.control_plane is not None:
                    cluster.control_plane.upgrade(changes["version"])
            except ClusterLaunchError as error:
                change["errors"] = [
                    {"errorCode": "Unknown", "errorMessage": str(error), "resourceIds": []}
                ]
            else:
                cluster.description.update(changes)
            cluster.description["status"] = "ACTIVE"
            change["status"] = "Failed" if change["errors"] else "Successful"

        in_background(run)
        return response

    def delete(self, name: str) -> dict[str, Any]:
        """Stop a control plane that has no node groups left."""
        cluster = self._clusters.find(name)
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
                self._clients.get("ec2").delete_security_group(GroupId=group)
            except ClientError:
                LOG.warning("security group %s of cluster %s stays", group, name)
            control_plane_logs.end(cluster.description)
            self._clusters.remove(name)

        in_background(stop)
        return cluster.description


def _description(
    request: Mapping[str, Any], subnets: Sequence[Mapping[str, Any]], vpc_cidr: str
) -> dict[str, Any]:
    """A new cluster as DescribeCluster shows it, with EKS's defaults."""
    vpc = request.get("resourcesVpcConfig") or {}
    network = request.get("kubernetesNetworkConfig") or {}
    # EKS chooses the one of the two that does not overlap with the VPC.
    default_services = "172.20.0.0/16" if vpc_cidr.startswith("10.") else "10.100.0.0/16"
    access = request.get("accessConfig") or {}
    description: dict[str, Any] = {
        "name": request["name"],
        "arn": arn("eks", f"cluster/{request['name']}"),
        "createdAt": now(),
        "version": request.get("version") or "1.36",
        "roleArn": request["roleArn"],
        "status": "CREATING",
        "resourcesVpcConfig": {
            "subnetIds": [subnet["SubnetId"] for subnet in subnets],
            "securityGroupIds": vpc.get("securityGroupIds") or [],
            "vpcId": subnets[0]["VpcId"],
            "endpointPublicAccess": vpc.get("endpointPublicAccess", True),
            "endpointPrivateAccess": vpc.get("endpointPrivateAccess", False),
            "publicAccessCidrs": vpc.get("publicAccessCidrs") or ["0.0.0.0/0"],
        },
        "kubernetesNetworkConfig": (
            # EKS chooses a unique local range, and takes no other.
            {"serviceIpv6Cidr": "fd30:1c53:5f8a::/108", "ipFamily": "ipv6"}
            if network.get("ipFamily") == "ipv6"
            else {
                "serviceIpv4Cidr": network.get("serviceIpv4Cidr") or default_services,
                "ipFamily": "ipv4",
            }
        ),
        "logging": validation.logging(request.get("logging")),
        "identity": {
            "oidc": {
                "issuer": f"https://oidc.eks.{REGION}.amazonaws.com/id/" + uuid.uuid4().hex.upper()
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
    return description
