"""Rules about access entries and add-ons of EKS clusters."""

from __future__ import annotations

import pytest

from lint.rules import cluster_access as rules
from lint.rules.addons import AddonConfigurationIsJson


def entry(properties: str) -> str:
    return f"""
    Parameters: {{Choice: {{Type: String}}}}
    Conditions: {{IsOne: !Equals [!Ref Choice, one]}}
    Resources:
      Entry:
        Type: AWS::EKS::AccessEntry
        Properties: {{{properties}}}
    """


@pytest.mark.parametrize(
    "groups",
    [
        "['system:masters']",
        "[mine, !Sub 'system:${Choice}']",
        "!If [IsOne, ['system:masters'], !Ref AWS::NoValue]",
    ],
)
def test_a_group_of_kubernetes_itself_is_refused(findings, groups):
    (found,) = findings(rules.GroupsOfKubernetesItself, entry(f"KubernetesGroups: {groups}"))
    assert "Entry/Properties/KubernetesGroups: KubernetesGroups has system:" in found
    assert "bind a group of your own" in found


def test_a_group_of_ones_own_is_taken(findings):
    for groups in ("['rackrate:runners']", "[!Ref Choice]", "!Ref AWS::NoValue"):
        text = entry(f"KubernetesGroups: {groups}")
        assert findings(rules.GroupsOfKubernetesItself, text) == []


@pytest.mark.parametrize("name", ["KubernetesGroups", "AccessPolicies"])
def test_rights_of_nodes_are_refused(findings, name):
    rule = rules.NodeEntriesCarryNoRights
    (found,) = findings(rule, entry(f"Type: EC2_LINUX, {name}: [x]"))
    assert f"EKS refuses {name} in an access entry of Type EC2_LINUX" in found
    assert "make the Type STANDARD" in found
    assert findings(rule, entry(f"Type: STANDARD, {name}: [x]")) == []
    assert findings(rule, entry(f"{name}: [x]")) == []
    assert findings(rule, entry("Type: EC2_LINUX")) == []
    either = f"Type: !If [IsOne, EC2_LINUX, STANDARD], {name}: !If [IsOne, !Ref AWS::NoValue, [x]]"
    assert findings(rule, entry(either)) == []


def test_rights_by_policies_and_by_groups_together_are_refused(findings):
    rule = rules.OneWayToGrantRights
    (found,) = findings(rule, entry("KubernetesGroups: [x], AccessPolicies: [y]"))
    assert "KubernetesGroups stands beside AccessPolicies" in found
    assert "grant by one of them" in found
    assert findings(rule, entry("KubernetesGroups: [x]")) == []
    assert findings(rule, entry("AccessPolicies: [y]")) == []
    either = "KubernetesGroups: !If [IsOne, [x], !Ref AWS::NoValue], "
    either += "AccessPolicies: !If [IsOne, !Ref AWS::NoValue, [y]]"
    assert findings(rule, entry(either)) == []


def cluster(config: str, name: str = "!Ref Cluster") -> str:
    return f"""
    Parameters:
      Mode: {{Type: String, AllowedValues: [API, CONFIG_MAP]}}
      SafeMode: {{Type: String, AllowedValues: [API, API_AND_CONFIG_MAP]}}
    Conditions: {{IsApi: !Equals [!Ref Mode, API]}}
    Resources:
      Cluster:
        Type: AWS::EKS::Cluster
        Properties: {{RoleArn: x, {config}}}
      Entry:
        Type: AWS::EKS::AccessEntry
        Properties: {{ClusterName: {name}}}
    """


@pytest.mark.parametrize(
    "config",
    [
        "AccessConfig: {AuthenticationMode: CONFIG_MAP}",
        "AccessConfig: {AuthenticationMode: !Ref Mode}",
        "AccessConfig: {AuthenticationMode: !If [IsApi, API, CONFIG_MAP]}",
        "AccessConfig: {BootstrapClusterCreatorAdminPermissions: true}",
        "Name: x",
    ],
)
def test_access_entries_of_a_cluster_that_does_not_read_them_are_refused(findings, config):
    (found,) = findings(rules.AccessEntriesNeedTheApiMode, cluster(config))
    assert "AuthenticationMode can be CONFIG_MAP" in found
    assert "make it API or API_AND_CONFIG_MAP" in found


def test_access_entries_of_a_cluster_that_reads_them_are_taken(findings):
    rule = rules.AccessEntriesNeedTheApiMode
    for mode in ("API", "API_AND_CONFIG_MAP", "!Ref SafeMode", "!If [IsApi, !Ref Mode, API]"):
        config = f"AccessConfig: {{AuthenticationMode: {mode}}}"
        assert findings(rule, cluster(config)) == [], mode
    config = "AccessConfig: {AuthenticationMode: CONFIG_MAP}"
    assert findings(rule, cluster(config, name="of-another-stack")) == []


def addon(values: str) -> str:
    return f"""
    Parameters: {{Prefix: {{Type: String}}}}
    Conditions: {{IsOne: !Equals [!Ref Prefix, one]}}
    Resources:
      Addon:
        Type: AWS::EKS::Addon
        Properties:
          ConfigurationValues: {values}
    """


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("'{\"env\": {'", "are not JSON"),
        ("'env: {}'", "are not JSON"),
        ("'[1]'", "are JSON, but a list"),
        ("!Sub '{\"env\": ${Prefix}'", "are not JSON"),
        ("!If [IsOne, '{', '{}']", "are not JSON"),
    ],
)
def test_add_on_configuration_that_is_no_json_object_is_refused(findings, values, said):
    (found,) = findings(AddonConfigurationIsJson, addon(values))
    assert f"ConfigurationValues {said}" in found
    assert "write a JSON object" in found


@pytest.mark.parametrize(
    "values",
    [
        '\'{"env": {"ENABLE_PREFIX_DELEGATION": "true"}}\'',
        '!Sub \'{"env": {"ENABLE_PREFIX_DELEGATION": "${Prefix}", "WARM": ${Prefix}}}\'',
        "!If [IsOne, '{}', !Ref AWS::NoValue]",
        "!Ref Prefix",
        "!Ref AWS::NoValue",
    ],
)
def test_add_on_configuration_that_is_a_json_object_is_taken(findings, values):
    assert findings(AddonConfigurationIsJson, addon(values)) == []
