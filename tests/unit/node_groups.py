"""EKS with node groups, for tests of stages, changes and handlers."""

from __future__ import annotations

import datetime

from botocore.exceptions import ClientError

#: After the table of all tests, so no node came with it.
CREATED = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


class FakeNodeGroups:
    """Node groups of c5.large that store their sizes.

    Attributes:
        groups: the node groups by name, as EKS describes them. Tests may change them.
        refusals: the errors of the next updates, or their codes.
        updates: the group and the number of nodes of each update.
        described: the groups that were asked for.
    """

    def __init__(self, *names, nodes=2, **facts):
        sizes = {"minSize": nodes, "desiredSize": nodes, "maxSize": max(nodes, 2)}
        self.groups = {
            name: {
                "status": "ACTIVE",
                "createdAt": CREATED,
                "instanceTypes": ["c5.large"],
                "scalingConfig": sizes,
                "health": {"issues": []},
                "resources": {"autoScalingGroups": [{"name": f"eks-{name}"}]},
                **facts,
            }
            for name in names or ("ng-1", "ng-2")
        }
        self.refusals, self.updates, self.described = [], [], []

    def describe_nodegroup(self, *, clusterName, nodegroupName):
        assert nodegroupName, "the client itself refuses an empty name"
        self.described.append(nodegroupName)
        if nodegroupName not in self.groups:
            raise _error("ResourceNotFoundException", "DescribeNodegroup")
        return {"nodegroup": self.groups[nodegroupName]}

    def update_nodegroup_config(self, *, clusterName, nodegroupName, scalingConfig):
        if self.refusals:
            refusal = self.refusals.pop(0)
            code = isinstance(refusal, str)
            raise _error(refusal, "UpdateNodegroupConfig") if code else refusal
        self.updates.append((nodegroupName, scalingConfig["desiredSize"]))
        self.groups[nodegroupName]["scalingConfig"] = scalingConfig

    def desired(self):
        """The number of nodes that each group is to have."""
        return [group["scalingConfig"]["desiredSize"] for group in self.groups.values()]


def _error(code, operation):
    return ClientError({"Error": {"Code": code, "Message": "because"}}, operation)
