"""EKS whose add-ons are updated when the test says so."""

from __future__ import annotations

import json

from botocore.exceptions import ClientError

from tests.unit.node_groups import FakeNodeGroups

OLD, NEW = "v1.14.1-eksbuild.1", "v1.15.4-eksbuild.1"
MODES = ["iptables", "nftables"]


class Eks(FakeNodeGroups):
    """Two add-ons of a cluster with four nodes."""

    def __init__(self, cluster):
        super().__init__()
        self.addons = {
            "vpc-cni": {"addonVersion": OLD, "status": "ACTIVE"},
            "kube-proxy": {"addonVersion": "v1.36.0-eksbuild.2", "status": "ACTIVE"},
        }
        self.updates = {}
        self.cluster = cluster
        self.refusal = None

    def describe_addon(self, *, clusterName, addonName):
        if addonName not in self.addons:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeAddon")
        return {"addon": self.addons[addonName]}

    def get_paginator(self, operation):
        assert operation == "describe_addon_versions"
        return self

    def paginate(self, *, addonName, kubernetesVersion):
        assert (addonName, kubernetesVersion) == ("vpc-cni", "1.36")
        return [{"addons": [{"addonVersions": [{"addonVersion": v} for v in (NEW, OLD)]}]}]

    def describe_addon_configuration(self, *, addonName, addonVersion):
        schema = {"properties": {"mode": {"enum": MODES}}}
        return {"configurationSchema": json.dumps(schema)}

    def update_addon(self, *, clusterName, addonName, resolveConflicts, **changed):
        if self.refusal:
            raise self.refusal
        assert resolveConflicts == "OVERWRITE"
        self.addons[addonName].update(changed, status="UPDATING")
        self.roll(addonName, 0)
        id_ = f"u-{len(self.updates) + 1}"
        self.updates[id_] = {"id": id_, "status": "InProgress"}
        return {"update": self.updates[id_]}

    def describe_update(self, *, name, addonName, updateId):
        return {"update": self.updates[updateId]}

    # -- what tests script

    def end(self, name, *, have=4, status="Successful", active="ACTIVE", **more):
        """End the newest update of an add-on, with the new pods on so many nodes."""
        self.addons[name]["status"] = active
        self.updates[f"u-{len(self.updates)}"].update(status=status, **more)
        self.roll(name, have)

    def roll(self, name, have):
        daemon_set = {"vpc-cni": "aws-node"}.get(name, name)
        image = f"registry.test/amazon-k8s-{name}:{self.addons[name]['addonVersion']}"
        containers = [{"name": daemon_set, "image": image}]
        self.cluster.objects[f"/apis/apps/v1/namespaces/kube-system/daemonsets/{daemon_set}"] = {
            "metadata": {"generation": 2},
            "spec": {"template": {"spec": {"containers": containers}}},
            "status": {
                "observedGeneration": 2,
                "desiredNumberScheduled": 4,
                "updatedNumberScheduled": have,
                "numberAvailable": have,
            },
        }
