"""Access entries of EKS clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, possible, possible_values, properties, referred, resources

ENTRY = "AWS::EKS::AccessEntry"
CREATE_ACCESS_ENTRY = (
    "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html"
)


def _entries(cfn: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    """All access entries, in each scenario of their conditions."""
    names = ("AccessPolicies", "KubernetesGroups", "Type")
    for logical_id, entry, _ in possible(cfn, ENTRY, *names):
        yield logical_id, entry


class GroupsOfKubernetesItself(Rule):
    id = "E9021"
    shortdesc = "An access entry's groups are not Kubernetes' own"
    description = "EKS refuses a KubernetesGroups name that starts with `system:`."
    source_url = "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, entry in _entries(cfn):
            groups = entry.get("KubernetesGroups")
            for group in groups if isinstance(groups, list) else []:
                text = group.get("Fn::Sub") if isinstance(group, dict) else group
                if isinstance(text, str) and text.startswith("system:"):
                    yield (
                        ["Resources", logical_id, "Properties", "KubernetesGroups"],
                        f"KubernetesGroups has {text}, and EKS refuses groups of system:; bind a "
                        "group of your own, or give the access policy "
                        "AmazonEKSClusterAdminPolicy with AccessPolicies",
                    )


class NodeEntriesCarryNoRights(Rule):
    id = "E9022"
    shortdesc = "Access entries of nodes take neither groups nor policies"
    description = "EKS sets the rights of nodes itself; only STANDARD entries take more."
    source_url = CREATE_ACCESS_ENTRY

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, entry in _entries(cfn):
            if entry.get("Type") not in ("EC2_LINUX", "EC2_WINDOWS"):
                continue
            for name in ("AccessPolicies", "KubernetesGroups"):
                if name in entry:
                    yield (
                        ["Resources", logical_id, "Properties", name],
                        f"EKS refuses {name} in an access entry of Type {entry['Type']}; "
                        "remove it, or make the Type STANDARD",
                    )


class AccessEntriesNeedTheApiMode(Rule):
    id = "E9023"
    shortdesc = "Access entries need a cluster that reads them"
    description = (
        "With AuthenticationMode CONFIG_MAP, which is the default, a cluster knows no access "
        "entries."
    )
    source_url = (
        "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        entered = {
            cluster
            for _, entry in resources(cfn, ENTRY)
            for cluster in referred(properties(entry).get("ClusterName"))
        }
        for logical_id, found, scenario in possible(cfn, "AWS::EKS::Cluster", "AccessConfig"):
            if logical_id not in entered:
                continue
            config = found.get("AccessConfig")
            mode = config.get("AuthenticationMode") if isinstance(config, dict) else None
            if "CONFIG_MAP" in (possible_values(cfn, mode or "CONFIG_MAP", scenario) or ()):
                yield (
                    ["Resources", logical_id, "Properties", "AccessConfig"],
                    "AuthenticationMode can be CONFIG_MAP (the default), and the cluster has "
                    "access entries; make it API or API_AND_CONFIG_MAP",
                )


class OneWayToGrantRights(Rule):
    id = "W9024"
    shortdesc = "An access entry grants by policies or by groups"
    description = (
        "EKS adds up what AccessPolicies and KubernetesGroups grant, so that neither alone says "
        "what a principal may do."
    )
    source_url = CREATE_ACCESS_ENTRY

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, entry in _entries(cfn):
            if entry.get("AccessPolicies") and entry.get("KubernetesGroups"):
                yield (
                    ["Resources", logical_id, "Properties", "KubernetesGroups"],
                    "KubernetesGroups stands beside AccessPolicies, and their rights add up; "
                    "grant by one of them",
                )
