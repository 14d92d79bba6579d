"""The EKS API, on moto's request parsing and response serialisation."""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.responses import ActionResult, BaseResponse

from ..errors import ApiError
from ..identity import caller_arn
from .service import EksService


class EksResponse(BaseResponse):
    """One request. `service` is set when the server starts."""

    service: EksService

    def __init__(self) -> None:
        super().__init__(service_name="eks")
        self.automated_parameter_parsing = True

    # -- clusters

    def create_cluster(self) -> ActionResult:
        creator = caller_arn(self.access_key)
        return ActionResult({"cluster": self.service.create_cluster(self._get_params(), creator)})

    def describe_cluster(self) -> ActionResult:
        return ActionResult({"cluster": self.service.cluster(self._get_param("name")).description})

    def list_clusters(self) -> ActionResult:
        return ActionResult({"clusters": sorted(self.service.clusters)})

    def delete_cluster(self) -> ActionResult:
        return ActionResult({"cluster": self.service.delete_cluster(self._get_param("name"))})

    def describe_cluster_versions(self) -> ActionResult:
        # The lab has the versions of its clusters, and no calendar of their support.
        wanted = self._get_param("clusterVersions")
        versions = {c.description["version"] for c in self.service.clusters.values()}
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
                    if not wanted or version in wanted
                ]
            }
        )

    # -- node groups

    def create_nodegroup(self) -> ActionResult:
        return ActionResult({"nodegroup": self.service.create_node_group(self._get_params())})

    def describe_nodegroup(self) -> ActionResult:
        group = self.service.node_group(
            self._get_param("clusterName"), self._get_param("nodegroupName")
        )
        return ActionResult({"nodegroup": group.description})

    def list_nodegroups(self) -> ActionResult:
        cluster = self.service.cluster(self._get_param("clusterName"))
        return ActionResult({"nodegroups": sorted(cluster.node_groups)})

    def update_nodegroup_config(self) -> ActionResult:
        update = self.service.update_node_group(
            self._get_param("clusterName"),
            self._get_param("nodegroupName"),
            self._get_param("scalingConfig"),
        )
        return ActionResult({"update": update})

    def describe_update(self) -> ActionResult:
        update = self.service.update(
            self._get_param("name"), self._get_param("nodegroupName"), self._get_param("updateId")
        )
        return ActionResult({"update": update})

    def delete_nodegroup(self) -> ActionResult:
        description = self.service.delete_node_group(
            self._get_param("clusterName"), self._get_param("nodegroupName")
        )
        return ActionResult({"nodegroup": description})

    # -- add-ons

    def create_addon(self) -> ActionResult:
        return ActionResult({"addon": self.service.create_addon(self._get_params())})

    def describe_addon(self) -> ActionResult:
        addon = self.service.addon(self._get_param("clusterName"), self._get_param("addonName"))
        return ActionResult({"addon": addon})

    def list_addons(self) -> ActionResult:
        cluster = self.service.cluster(self._get_param("clusterName"))
        return ActionResult({"addons": sorted(cluster.addons)})

    def update_addon(self) -> ActionResult:
        return ActionResult({"update": self.service.update_addon(self._get_params())})

    def delete_addon(self) -> ActionResult:
        cluster_name, name = self._get_param("clusterName"), self._get_param("addonName")
        addon = self.service.addon(cluster_name, name)
        del self.service.cluster(cluster_name).addons[name]
        return ActionResult({"addon": {**addon, "status": "DELETING"}})

    # -- access entries

    def create_access_entry(self) -> ActionResult:
        return ActionResult({"accessEntry": self.service.create_access_entry(self._get_params())})

    def describe_access_entry(self) -> ActionResult:
        return ActionResult({"accessEntry": self._entry().description})

    def list_access_entries(self) -> ActionResult:
        cluster = self.service.cluster(self._get_param("clusterName"))
        return ActionResult({"accessEntries": sorted(cluster.access_entries)})

    def delete_access_entry(self) -> ActionResult:
        entry = self._entry()
        cluster = self.service.cluster(self._get_param("clusterName"))
        del cluster.access_entries[entry.description["principalArn"]]
        return ActionResult({})

    def associate_access_policy(self) -> ActionResult:
        cluster, principal = self._get_param("clusterName"), self._get_param("principalArn")
        association = self.service.associate_access_policy(
            cluster, principal, self._get_param("policyArn"), self._get_param("accessScope")
        )
        return ActionResult(
            {
                "clusterName": cluster,
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

    def disassociate_access_policy(self) -> ActionResult:
        policies = self._entry().policies
        if policies.pop(self._get_param("policyArn"), None) is None:
            raise ApiError("ResourceNotFoundException", "The specified policy is not associated.")
        return ActionResult({})

    def _entry(self) -> Any:
        return self.service.access_entry(
            self._get_param("clusterName"), self._get_param("principalArn")
        )

    # -- pod identities

    def create_pod_identity_association(self) -> ActionResult:
        params = self._get_params()
        cluster = self.service.cluster(params["clusterName"])
        identity = f"a-{uuid.uuid4().hex[:17]}"
        association = {
            key: params[key]
            for key in ("clusterName", "namespace", "serviceAccount", "roleArn", "tags")
            if key in params
        } | {
            "associationId": identity,
            "associationArn": cluster.description["arn"].replace(
                ":cluster/", ":podidentityassociation/"
            )
            + f"/{identity}",
        }
        cluster.pod_identities[identity] = association
        return ActionResult({"association": association})

    def list_pod_identity_associations(self) -> ActionResult:
        cluster = self.service.cluster(self._get_param("clusterName"))
        return ActionResult({"associations": list(cluster.pod_identities.values())})

    def delete_pod_identity_association(self) -> ActionResult:
        cluster = self.service.cluster(self._get_param("clusterName"))
        association = cluster.pod_identities.pop(self._get_param("associationId"), None)
        if association is None:
            raise ApiError(
                "ResourceNotFoundException", "The specified association could not be found."
            )
        return ActionResult({"association": association})
