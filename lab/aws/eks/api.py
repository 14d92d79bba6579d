"""The EKS API, on moto's request parsing and response serialization."""

from __future__ import annotations

from moto.core.responses import ActionResult, BaseResponse

from lab.aws.eks import access_entries, addons
from lab.aws.eks.clusters import AccessEntry, Cluster, Clusters
from lab.aws.eks.control_planes import ControlPlanes
from lab.aws.eks.node_groups import NodeGroups
from lab.aws.iam.identity import caller_arn


class EksResponse(BaseResponse):
    """Answers one request."""

    def __init__(
        self, *, clusters: Clusters, control_planes: ControlPlanes, node_groups: NodeGroups
    ) -> None:
        super().__init__(service_name="eks")
        self.automated_parameter_parsing = True
        self._clusters, self._control_planes = clusters, control_planes
        self._node_groups = node_groups

    # -- clusters

    def create_cluster(self) -> ActionResult:
        creator = caller_arn(self.access_key)
        return ActionResult({"cluster": self._control_planes.create(self._get_params(), creator)})

    def describe_cluster(self) -> ActionResult:
        return ActionResult({"cluster": self._clusters.find(self._get_param("name")).description})

    def list_clusters(self) -> ActionResult:
        return ActionResult(
            {"clusters": sorted(cluster.description["name"] for cluster in self._clusters.all())}
        )

    def delete_cluster(self) -> ActionResult:
        return ActionResult({"cluster": self._control_planes.delete(self._get_param("name"))})

    def update_cluster_config(self) -> ActionResult:
        return ActionResult({"update": self._control_planes.update_config(self._get_params())})

    def update_cluster_version(self) -> ActionResult:
        name, version = self._get_param("name"), self._get_param("version")
        return ActionResult({"update": self._control_planes.update_version(name, version)})

    def describe_cluster_versions(self) -> ActionResult:
        # The lab lists the versions of its clusters, without dates of their support.
        chosen = self._get_param("clusterVersions")
        versions = {c.description["version"] for c in self._clusters.all()}
        return ActionResult(
            {
                "clusterVersions": [
                    {
                        "clusterVersion": version,
                        "clusterType": "eks",
                        "status": "standard-support",
                        "versionStatus": "STANDARD_SUPPORT",
                    }
                    for version in sorted(versions)
                    if not chosen or version in chosen
                ]
            }
        )

    # -- node groups

    def create_nodegroup(self) -> ActionResult:
        return ActionResult({"nodegroup": self._node_groups.create(self._get_params())})

    def describe_nodegroup(self) -> ActionResult:
        group = self._clusters.node_group(
            self._get_param("clusterName"), self._get_param("nodegroupName")
        )
        return ActionResult({"nodegroup": group.description})

    def list_nodegroups(self) -> ActionResult:
        cluster = self._cluster()
        return ActionResult({"nodegroups": sorted(cluster.node_groups)})

    def update_nodegroup_config(self) -> ActionResult:
        return ActionResult({"update": self._node_groups.configure(self._get_params())})

    def update_nodegroup_version(self) -> ActionResult:
        return ActionResult({"update": self._node_groups.update_version(self._get_params())})

    def describe_update(self) -> ActionResult:
        name, update_id = self._get_param("name"), self._get_param("updateId")
        addon, group = self._get_param("addonName"), self._get_param("nodegroupName")
        updates = self._clusters.find(name).updates
        if addon:
            addons.find(self._clusters.find(name), addon)
            updates = self._clusters.find(name).addon_updates[addon]
        elif group:
            updates = self._clusters.node_group(name, group).updates
        return ActionResult({"update": updates.find(update_id)})

    def delete_nodegroup(self) -> ActionResult:
        description = self._node_groups.delete(
            self._get_param("clusterName"), self._get_param("nodegroupName")
        )
        return ActionResult({"nodegroup": description})

    # -- add-ons

    def create_addon(self) -> ActionResult:
        return ActionResult({"addon": addons.create(self._cluster(), self._get_params())})

    def describe_addon(self) -> ActionResult:
        addon = addons.find(self._cluster(), self._get_param("addonName"))
        return ActionResult({"addon": addon})

    def list_addons(self) -> ActionResult:
        cluster = self._cluster()
        return ActionResult({"addons": sorted(cluster.addons)})

    def update_addon(self) -> ActionResult:
        return ActionResult({"update": addons.update(self._cluster(), self._get_params())})

    def delete_addon(self) -> ActionResult:
        addon = addons.delete(self._cluster(), self._get_param("addonName"))
        return ActionResult({"addon": addon})

    def describe_addon_versions(self) -> ActionResult:
        releases = sorted({cluster.description["version"] for cluster in self._clusters.all()})
        versions = addons.versions(self._get_params(), releases)
        return ActionResult({"addons": versions})

    def describe_addon_configuration(self) -> ActionResult:
        return ActionResult(addons.configuration(self._get_params()))

    # -- access entries

    def create_access_entry(self) -> ActionResult:
        entry = access_entries.create(self._cluster(), self._get_params())
        return ActionResult({"accessEntry": entry.description})

    def list_access_entries(self) -> ActionResult:
        cluster = self._cluster()
        return ActionResult({"accessEntries": sorted(cluster.access_entries)})

    def update_access_entry(self) -> ActionResult:
        entry = access_entries.update(self._cluster(), self._get_params())
        return ActionResult({"accessEntry": entry.description})

    def disassociate_access_policy(self) -> ActionResult:
        self._entry().policies.pop(self._get_param("policyArn"), None)
        return ActionResult({})

    def delete_access_entry(self) -> ActionResult:
        entry = self._entry()
        del self._cluster().access_entries[entry.description["principalArn"]]
        return ActionResult({})

    def associate_access_policy(self) -> ActionResult:
        principal = self._get_param("principalArn")
        association = access_entries.associate_policy(
            self._cluster(), principal, self._get_param("policyArn"), self._get_param("accessScope")
        )
        return ActionResult(
            {
                "clusterName": self._get_param("clusterName"),
                "principalArn": principal,
                "associatedAccessPolicy": association,
            }
        )

    def list_associated_access_policies(self) -> ActionResult:
        entry = self._entry()
        return ActionResult(
            {
                "clusterName": self._get_param("clusterName"),
                "principalArn": self._get_param("principalArn"),
                "associatedAccessPolicies": list(entry.policies.values()),
            }
        )

    # -- tags

    def tag_resource(self) -> ActionResult:
        self._clusters.tags(self._get_param("resourceArn")).update(self._get_param("tags"))
        return ActionResult({})

    def _cluster(self) -> Cluster:
        return self._clusters.find(self._get_param("clusterName"))

    def _entry(self) -> AccessEntry:
        return access_entries.find(self._cluster(), self._get_param("principalArn"))
