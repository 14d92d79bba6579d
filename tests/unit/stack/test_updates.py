"""An update is refused where CloudFormation or EKS would fail, or results would be lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.stack.request import Zones
from rackrate.stack.updates import replaces_node_groups, update_faults
from tests.unit.stack.test_preflight import PROPERTIES

ZONES = Zones("us-east-1a", "us-east-1b")


def sentences(old, new, zones=ZONES):
    faults = update_faults({**PROPERTIES, **old}, {**PROPERTIES, **new}, zones)
    return [str(fault) for fault in faults]


@pytest.mark.parametrize(
    ("name", "old", "new", "remedy"),
    [
        ("ExistingClusterName", "house", "", "update it with existing-cluster.yaml, or deploy"),
        ("ExistingClusterName", "", "house", "update it with template.yaml, or deploy"),
        ("ExistingClusterName", "house", "garden", "deploy a second stack"),
        ("KubernetesVersion", "1.36", "1.35", "deploy a second stack"),
        ("KubernetesVersion", "1.34", "1.36", "update the stack to 1.35 first"),
        ("VpcCidr", "10.0.0.0/16", "10.1.0.0/16", "deploy a second stack"),
        ("AvailabilityZone", "us-east-1a", "us-east-1c", "leave it empty or at us-east-1a"),
        ("RetainResults", "true", "false", "leave it as it is"),
        ("RetainResults", "false", "true", "leave it as it is"),
        ("EncryptionKey", "create", "aws", "leave it as it is"),
    ],
)
def test_a_change_that_cannot_be_made_names_parameter_values_and_remedy(name, old, new, remedy):
    (sentence,) = sentences({name: old}, {name: new})
    assert sentence.startswith(f"{name} {old or '(empty)'} -> {new or '(empty)'}: ")
    assert remedy in sentence.partition("; ")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"KubernetesVersion": "1.35"}, {"KubernetesVersion": "1.36"}),
        ({"EncryptionKey": "aws"}, {"EncryptionKey": "create"}),
        ({}, {"AvailabilityZone": "us-east-1a"}),
        ({"AvailabilityZone": "us-east-1a"}, {}),
        ({"InstanceType": "c5.large"}, {"InstanceType": "c5.xlarge"}),
    ],
)
def test_a_change_that_can_be_made_is_not_refused(old, new):
    assert sentences(old, new) == []


def test_what_an_existing_cluster_has_of_its_own_may_change_in_the_parameters():
    own = {"ExistingClusterName": "house"}
    ignored = {"KubernetesVersion": "1.34", "VpcCidr": "10.9.0.0/16"}
    assert sentences(own, {**own, **ignored}, Zones()) == []


@pytest.mark.parametrize(
    ("old", "new", "remedy"),
    [
        ({"AuthenticationMode": "API_AND_CONFIG_MAP"}, {}, "with the release that you have"),
        ({"ControlPlaneLogs": "none"}, {}, "with the release that you have"),
        ({"Namespace": "bench"}, {}, "with the release that you have"),
        ({"ParentPlacementGroupId": "pg-0123456789abcdef0"}, {}, "deploy a second stack"),
        ({"NodeGroupsPerArm": "2"}, {"NodeCount": "450"}, "with the release that you have"),
        ({"PublicEndpoint": "false"}, {}, "set PublicAccessCidrs to nothing"),
        ({"AlarmTopicArn": "arn:aws:sns:x"}, {"AlarmRecipient": "a@b.c"}, "set AlarmRecipient"),
    ],
)
def test_a_removed_parameter_that_had_a_value_is_refused_in_one_sentence(old, new, remedy):
    (sentence,) = sentences(old, new)
    ((name, value),) = old.items()
    assert sentence.startswith(f"{name} {value}: this release ")
    assert remedy in sentence.partition("; ")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"EncryptSecrets": "true", "VpcCniVersion": "v1.20.4-eksbuild.1"}, {}),
        ({"AuthenticationMode": "API", "KubeletConfig": "{}", "ParentPlacementGroupId": ""}, {}),
        ({"NodeGroupsPerArm": "2"}, {"NodeCount": "819"}),
        ({"PublicEndpoint": "false"}, {"PublicAccessCidrs": ""}),
        ({"AlarmEmail": "a@b.c"}, {"AlarmRecipient": "a@b.c"}),
        ({"AlarmEmail": "", "AlarmTopicArn": ""}, {}),
    ],
)
def test_a_removed_parameter_whose_value_is_still_that_is_not_refused(old, new):
    assert sentences(old, new) == []


def test_nodes_of_an_autoscaler_are_asked_for_by_their_number():
    house = {"ExistingClusterName": "house"}
    old = {**house, "NodesOnDemand": "true", "NodeCount": "3"}
    (sentence,) = sentences(old, house)
    assert sentence.endswith("set OnDemandNodeCount to 3")
    assert sentences(old, {**house, "OnDemandNodeCount": "3"}) == []
    assert sentences({**old, "NodesOnDemand": "false"}, house) == []


def test_a_spread_group_must_hold_old_and_new_nodes_when_node_groups_are_replaced():
    spread = {"TreatmentStrategy": "spread", "NodeCount": "4"}
    bottlerocket = {"AmiType": "BOTTLEROCKET_x86_64"}
    (sentence,) = sentences(spread, {**spread, **bottlerocket})
    assert "8 nodes are more than the 7" in sentence
    assert "update NodeCount to 3 first" in sentence
    assert sentences({**spread, "NodeCount": "3"}, {**spread, **bottlerocket}) == []
    # Nodes in another group do not count, and nodes that are replaced one by one neither.
    assert sentences({"NodeCount": "4"}, {**spread, **bottlerocket}) == []
    assert sentences(spread, {**spread, "EnaExpress": "both"}) == []


def test_new_node_groups_are_made_only_by_an_update_of_what_a_node_group_keeps():
    assert not replaces_node_groups({}, PROPERTIES)
    assert not replaces_node_groups(PROPERTIES, {**PROPERTIES, "NodeCount": "3"})
    assert replaces_node_groups(PROPERTIES, {**PROPERTIES, "SecondaryCidr": "100.64.0.0/16"})


@given(st.sets(st.sampled_from(sorted(set(PROPERTIES) - {"ExistingClusterName"}))))
def test_a_property_that_an_older_template_did_not_have_is_never_refused(missing):
    old = {name: value for name, value in PROPERTIES.items() if name not in missing}
    assert update_faults(old, PROPERTIES, Zones()) == []
