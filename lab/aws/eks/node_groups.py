"""Managed node groups: launch and terminate instances until there are as many as desired."""

from __future__ import annotations

import functools
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.ec2.capacity import Capacity
from lab.aws.eks import access_entries, addons, draining, validation
from lab.aws.eks.clusters import Cluster, Clusters, NodeGroup, in_background, subnets_of
from lab.aws.eks.infrastructure import Infrastructure, Instance, NodeLaunchError
from lab.aws.eks.instances import launch_instances, node_spec
from lab.aws.eks.launch_templates import instance_types, launch_template
from lab.aws.eks.releases import Releases
from lab.aws.eks.user_data import KubeletSettings, NeverJoins, WrongForm, kubelet_settings
from lab.aws.eks.validation import invalid

LOG = logging.getLogger(__name__)

# The codes of health issues that an update's errors have too.
_UPDATE_ERRORS = {"InsufficientFreeAddresses", "NodeCreationFailure"}
# The most nodes that an update replaces at once.
_MOST_AT_ONCE = 100
#: How long after a failed launch EKS reports it as a health issue. On AWS the Auto Scaling group
#: tries again every few minutes, and EKS gives up after about 35 minutes (logs in public
#: repositories, such as terraform's "Still creating" for 33 and 38 minutes).
GIVE_UP_SECONDS = 1.0
_DEFAULT_AMI_TYPE = "AL2023_x86_64_STANDARD"


class NodeGroups:
    """Makes, updates and deletes node groups."""

    def __init__(
        self,
        clusters: Clusters,
        clients: ClientFactory,
        infrastructure: Infrastructure,
        capacity: Capacity,
    ) -> None:
        self._clusters, self._clients = clusters, clients
        self._infrastructure, self._capacity = infrastructure, capacity
        self.releases = Releases(clients)
        self._lock = threading.Lock()

    def create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch instances and wait in the background for their nodes."""
        cluster_name, name = request["clusterName"], request["nodegroupName"]
        cluster = self._clusters.find(cluster_name)
        if cluster.description["status"] != "ACTIVE":
            raise ApiError(
                "InvalidRequestException",
                f"Cluster {cluster_name} is {cluster.description['status']}, not ACTIVE",
            )
        subnets = subnets_of(self._clients, request.get("subnets") or [])
        template, version = launch_template(self._clients, request)
        types = instance_types(request, template)
        scaling = {"minSize": 1, "maxSize": 2, "desiredSize": 2, **request.get("scalingConfig", {})}
        validation.scaling(scaling)
        ami_type = "CUSTOM" if template.get("ImageId") else request.get("amiType")
        if template.get("ImageId") and request.get("amiType") not in (None, "CUSTOM"):
            raise invalid(
                "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in"
                " your launch template."
            )
        validation.instance_types(self._clients.get("ec2"), types, ami_type or _DEFAULT_AMI_TYPE)
        version_of_nodes = request.get("version") or cluster.description["version"]
        description = {
            **_description(request, scaling, subnets, ami_type or _DEFAULT_AMI_TYPE),
            "version": version_of_nodes,
            "releaseVersion": self._release(request, version_of_nodes, ami_type),
            "instanceTypes": types if not template.get("InstanceType") else None,
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
        access_entries.ensure_node_role(cluster, request["nodeRole"])
        in_background(lambda: self._carry_out(cluster, group, "CREATE_FAILED", self._resize))
        return description

    def _resize(self, cluster: Cluster, group: NodeGroup) -> None:
        """Bring a node group to its desired size."""
        desired = group.description["scalingConfig"]["desiredSize"]
        surplus = group.instances[desired:]
        if surplus:
            self._remove(cluster, group, surplus)
        missing = desired - len(group.instances)
        if missing > 0:
            self._launch(cluster, group, missing)

    def _carry_out(
        self,
        cluster: Cluster,
        group: NodeGroup,
        failure: str,
        work: Callable[[Cluster, NodeGroup], None],
    ) -> None:
        """Work on a node group, and report in its description how it went."""
        description = group.description
        try:
            with group.busy:
                work(cluster, group)
        except _NodeGroupIssue as issue:
            self._report(group, failure, issue.code, str(issue), issue.resources)
        except Exception as error:
            LOG.exception("node group %s", description["nodegroupName"])
            self._report(group, failure, "InternalFailure", f"{type(error).__name__}: {error}", [])
        else:
            description["health"]["issues"] = []
            description["modifiedAt"] = now()
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
        image_id = (
            group.template.get("ImageId")
            or self.releases.images(description["version"], description["amiType"])[
                description["releaseVersion"]
            ]
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
            kubelet = error  # EKS launches such an instance, and only then it fails to join
        instances: list[Instance] = []

        def started(instance: Instance) -> None:
            group.instances.append(instance)
            instances.append(instance)

        issue: _NodeGroupIssue | None = None
        try:
            launch_instances(
                self._clients,
                self._infrastructure,
                description=description,
                template=group.template,
                image_id=image_id,
                cluster_security_group=cluster.description["resourcesVpcConfig"][
                    "clusterSecurityGroupId"
                ],
                count=count,
                cni=addons.cni_environment(cluster),
                started=started,
                room=self._capacity.room,
            )
        except (ClientError, NodeLaunchError) as error:
            issue = _failed_launch(error, asg)
            group.activities.append(_activity(asg, "Failed", str(issue)))
        else:
            group.activities.append(_activity(asg, "Successful"))
        # What EC2 did start joins the cluster, also if it refused the rest.
        self._join(cluster, group, instances, kubelet, image_id)
        if issue is not None:
            group.is_going.wait(GIVE_UP_SECONDS)
            raise issue

    def _join(
        self,
        cluster: Cluster,
        group: NodeGroup,
        instances: Sequence[Instance],
        kubelet: KubeletSettings | NeverJoins,
        image_id: str,
    ) -> None:
        """Let new instances become nodes."""
        if not instances:
            return
        description = group.description
        joining = [instance.instance_id for instance in instances]
        if isinstance(kubelet, NeverJoins):
            raise _never_joined(kubelet, joining)
        labels = _labels(description, image_id)
        specs = [
            node_spec(instance, labels, description["taints"], kubelet) for instance in instances
        ]
        if cluster.control_plane is None:
            raise NodeLaunchError(f"cluster {cluster.description['name']} has no control plane")
        try:
            cluster.control_plane.launch_nodes(specs)
        except NodeLaunchError as error:
            raise _never_joined(error, joining) from error

    def _remove(self, cluster: Cluster, group: NodeGroup, instances: list[Instance]) -> None:
        """Drain nodes and terminate their instances."""
        held = draining.begin(cluster, [instance.name for instance in instances])
        self._terminate(cluster, group, [one for one in instances if one.name != held])
        if held is not None:
            draining.wait(cluster)
            self._terminate(cluster, group, [one for one in instances if one.name == held])

    def _terminate(self, cluster: Cluster, group: NodeGroup, instances: list[Instance]) -> None:
        if not instances:
            return
        if cluster.control_plane is not None:
            cluster.control_plane.terminate_nodes([instance.name for instance in instances])
        self._clients.get("ec2").terminate_instances(
            InstanceIds=[instance.instance_id for instance in instances]
        )
        for instance in instances:
            self._infrastructure.release_block(instance.block)
        group.instances = [i for i in group.instances if i not in instances]
        cluster.draining.difference_update(instance.name for instance in instances)

    def replace(self, instance_ids: Iterable[str]) -> None:
        """Begin to launch other instances for those that somebody terminated.

        An Auto Scaling group does so when it finds that an instance of its has ended. The cloud
        controller deletes the node of an instance that has ended.
        """
        ended = set(instance_ids)
        for cluster in self._clusters.all():
            for group in list(cluster.node_groups.values()):
                if not ended.isdisjoint(instance.instance_id for instance in group.instances):
                    in_background(functools.partial(self._replace, cluster, group, ended))

    def _replace(self, cluster: Cluster, group: NodeGroup, ended: Set[str]) -> None:
        with group.busy:
            # None are left of what the node group terminated itself.
            lost = [one for one in group.instances if one.instance_id in ended]
            if not lost or group.description["status"] == "DELETING":
                return
            if cluster.control_plane is not None:
                cluster.control_plane.terminate_nodes([one.name for one in lost])
            group.instances = [one for one in group.instances if one not in lost]
            try:
                self._resize(cluster, group)
            except _NodeGroupIssue as issue:
                self._report(group, "DEGRADED", issue.code, str(issue), issue.resources)
            # Only now, so that a new node gets another address and so another name.
            for one in lost:
                self._infrastructure.release_block(one.block)

    def configure(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Change a node group's size, its labels, or how a new version comes to it."""
        cluster, group = self._updatable(request)
        description = group.description
        scaling, labels = request.get("scalingConfig"), request.get("labels") or {}
        sizes = {**description["scalingConfig"], **(scaling or {})}
        validation.scaling(sizes)
        description["scalingConfig"] = sizes
        description["updateConfig"] = request.get("updateConfig") or description["updateConfig"]
        description["labels"] = {
            key: value
            for key, value in description["labels"].items()
            if key not in (labels.get("removeLabels") or [])
        } | (labels.get("addOrUpdateLabels") or {})
        change = group.updates.begin("ConfigUpdate", scaling or {})
        return self._begin(cluster, group, change, self._resize)

    def update_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a node group's nodes by nodes of another version or launch template version."""
        cluster, group = self._updatable(request)
        description = group.description
        version = request.get("version") or description["version"]
        validation.node_group_version(cluster.description["version"], version)
        release = self._release(request, version, description["amiType"])
        reference = request.get("launchTemplate")
        if reference:
            template, template_version = launch_template(self._clients, request)
            if template.get("InstanceType") and description["instanceTypes"]:
                raise invalid(
                    "You must continue to not specify an instance type within the launch template"
                )
            types = instance_types({"instanceTypes": description["instanceTypes"]}, template)
            ami_type = description["amiType"]
            validation.instance_types(self._clients.get("ec2"), types, ami_type)
            group.template = {**template, "InstanceType": types[0]}
            description["launchTemplate"] = {
                **description["launchTemplate"],
                "version": str(template_version["VersionNumber"]),
            }
        description["version"], description["releaseVersion"] = version, release
        parameters = {"version": version, "launchTemplate": reference or {}}
        change = group.updates.begin("VersionUpdate", parameters)
        return self._begin(cluster, group, change, self._roll)

    def _updatable(self, request: Mapping[str, Any]) -> tuple[Cluster, NodeGroup]:
        cluster_name, name = request["clusterName"], request["nodegroupName"]
        group = self._clusters.node_group(cluster_name, name)
        if group.description["status"] not in ("ACTIVE", "DEGRADED"):
            raise ApiError(
                "ResourceInUseException",
                "Nodegroup cannot be updated as it is currently not in Active State",
            )
        return self._clusters.find(cluster_name), group

    def _begin(
        self,
        cluster: Cluster,
        group: NodeGroup,
        change: dict[str, Any],
        work: Callable[[Cluster, NodeGroup], None],
    ) -> dict[str, Any]:
        response = dict(change)
        group.description["status"] = "UPDATING"

        def run() -> None:
            self._carry_out(cluster, group, "DEGRADED", work)
            issues = group.description["health"]["issues"]
            change["errors"] = [
                {
                    "errorCode": issue["code"] if issue["code"] in _UPDATE_ERRORS else "Unknown",
                    "errorMessage": issue["message"],
                    "resourceIds": issue["resourceIds"],
                }
                for issue in issues
            ]
            change["status"] = "Failed" if issues else "Successful"

        in_background(run)
        return response

    def _roll(self, cluster: Cluster, group: NodeGroup) -> None:
        """Replace every node, as many at once as the update's configuration says.

        The strategy DEFAULT first launches more nodes, up to two in each zone, and MINIMAL none.
        https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
        """
        config, old = group.description["updateConfig"], list(group.instances)
        percentage = config.get("maxUnavailablePercentage")
        share = len(old) * percentage // 100 if percentage else config.get("maxUnavailable", 1)
        at_once = min(max(share, 1), _MOST_AT_ONCE)
        if old and config.get("updateStrategy") != "MINIMAL":
            zones = len({instance.zone for instance in old})
            self._launch(cluster, group, max(2 * zones, at_once))
        while old:
            leaving, old = old[:at_once], old[at_once:]
            self._remove(cluster, group, leaving)
            self._launch(cluster, group, len(leaving))
        self._resize(cluster, group)

    def delete(self, cluster_name: str, name: str) -> dict[str, Any]:
        """Terminate a node group's instances."""
        cluster, group = (
            self._clusters.find(cluster_name),
            self._clusters.node_group(cluster_name, name),
        )
        if group.description["status"] == "DELETING":
            raise ApiError("ResourceInUseException", f"Nodegroup {name} is being deleted")
        group.description["status"] = "DELETING"
        group.is_going.set()

        def remove() -> None:
            try:
                with group.busy:
                    self._remove(cluster, group, list(group.instances))
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

        in_background(remove)
        return group.description

    def _release(
        self, request: Mapping[str, Any], version: str, ami_type: str | None
    ) -> str | None:
        """The release of EKS's image; None for an image of the launch template."""
        requested = request.get("releaseVersion")
        if ami_type != "CUSTOM":
            return self.releases.chosen(version, ami_type or _DEFAULT_AMI_TYPE, requested)
        if requested:
            raise invalid(
                "You cannot specify a release version when the launch template has an image id."
            )
        return None


def _description(
    request: Mapping[str, Any],
    scaling: Mapping[str, int],
    subnets: Sequence[Mapping[str, Any]],
    ami_type: str,
) -> dict[str, Any]:
    """A new node group as DescribeNodegroup shows it, without what follows from its template."""
    cluster, name = request["clusterName"], request["nodegroupName"]
    return {
        "nodegroupName": name,
        "nodegroupArn": arn("eks", f"nodegroup/{cluster}/{name}/{uuid.uuid4()}"),
        "clusterName": cluster,
        "createdAt": now(),
        "modifiedAt": now(),
        "status": "CREATING",
        "capacityType": request.get("capacityType") or "ON_DEMAND",
        "scalingConfig": scaling,
        "subnets": [subnet["SubnetId"] for subnet in subnets],
        "amiType": ami_type,
        "nodeRole": request["nodeRole"],
        "labels": request.get("labels") or {},
        "taints": request.get("taints") or [],
        "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{uuid.uuid4()}"}]},
        "health": {"issues": []},
        "updateConfig": request.get("updateConfig") or {"maxUnavailable": 1},
        "tags": request.get("tags") or {},
    }


def _labels(description: Mapping[str, Any], image_id: str) -> dict[str, str]:
    """The labels that EKS gives a node group's nodes."""
    labels = {
        **description["labels"],
        "eks.amazonaws.com/nodegroup": description["nodegroupName"],
        "eks.amazonaws.com/nodegroup-image": image_id,
        "eks.amazonaws.com/capacityType": description["capacityType"],
    }
    if "launchTemplate" in description:
        template = description["launchTemplate"]
        labels["eks.amazonaws.com/sourceLaunchTemplateId"] = template["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    return labels


def _failed_launch(error: ClientError | NodeLaunchError, asg: str) -> _NodeGroupIssue:
    if isinstance(error, NodeLaunchError):
        return _NodeGroupIssue("InsufficientFreeAddresses", str(error), [asg])
    details = error.response["Error"]
    return _NodeGroupIssue(
        "AsgInstanceLaunchFailures",
        f"Could not launch On-Demand Instances. {details['Code']} - {details['Message']}"
        " Launching EC2 instance failed.",
        [asg],
    )


def _activity(asg: str, status: str, message: str = "") -> dict[str, Any]:
    """A launch as DescribeScalingActivities shows it."""
    return {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": asg,
        "Cause": "The capacity was less than the desired one.",
        "StartTime": now(),
        "StatusCode": status,
        "StatusMessage": message,
    }


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
