"""The functions can read the environment that the template sets."""

from __future__ import annotations

import json
import re

import pytest

from rackrate.settings import Endpoints, Settings, StackArm
from rackrate_contract.arms import Endpoint
from rackrate_contract.selectors import Selector
from tests import ROOT
from tests.templates.cloudformation import load

TEMPLATE = load(ROOT / "templates" / "benchmark.yaml")
LABEL = "eks.amazonaws.com/nodegroup"
CREATED = {
    "TreatmentNodeGroups": "one,three",
    "BaselineNodeGroups": "two",
    "TreatmentSelector": "rackrate.dev/arm=treatment",
    "BaselineSelector": "rackrate.dev/arm=baseline",
    "TreatmentStrategy": "cluster",
    "EnaExpress": "none",
    "BandwidthWeighting": "default",
    "NodeCount": "3",
    "IdleScaleToZero": "false",
    "HostNamespace": "",
    "Tolerations": "",
    "NodesOnDemand": "false",
    "LoadNodeGroups": "",
    "LoadNodeSelector": "",
    "LoadNodeCount": "0",
    "AllowedImages": "",
    "AllowedEndpoints": "",
    "EndpointInstance": "",
}
EXISTING = {
    **CREATED,
    "TreatmentNodeGroups": "",
    "BaselineNodeGroups": "",
    "TreatmentSelector": "placementGroup=true",
    "BaselineSelector": "placementGroup=false",
}


def settings(given):
    """A function's settings in a stack with these parameters."""
    values = {**{name: name.lower() for name in TEMPLATE["Parameters"]}, **given}

    def condition(value):
        match value:
            case {"Fn::Equals": [left, right]}:
                return resolve(left) == resolve(right)
            case {"Fn::Not": [inner]}:
                return not condition(inner)
        raise AssertionError(value)

    def resolve(value):
        match value:
            case {"Ref": name}:
                return values[name]
            case {"Fn::If": [name, yes, no]}:
                return resolve(yes if condition(TEMPLATE["Conditions"][name]) else no)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text)
            case {"Fn::Sub": [text, more]}:
                known = {**values, **{name: resolve(entry) for name, entry in more.items()}}
                return re.sub(r"\$\{(\w+)\}", lambda match: known[match[1]], text)
        return value

    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    return Settings.from_environment({name: resolve(value) for name, value in variables.items()})


def test_a_stack_with_node_groups_of_its_own():
    stack = settings(CREATED)
    assert stack.arms == (
        StackArm(
            "treatment",
            "cluster",
            False,
            ("one", "three"),
            Selector.parse("rackrate.dev/arm=treatment"),
        ),
        StackArm("baseline", "none", True, ("two",), Selector.parse("rackrate.dev/arm=baseline")),
    )
    assert [arm.whereabouts for arm in stack.arms] == [
        "node groups one and three",
        "node group two",
    ]
    assert (stack.node_count, stack.idle_scale_to_zero) == (3, False)
    assert settings({**CREATED, "IdleScaleToZero": "true"}).idle_scale_to_zero is True


def test_a_stack_without_a_baseline_has_one_arm_which_is_its_own_baseline():
    alone = settings({**CREATED, "BaselineSelector": "", "BaselineNodeGroups": ""})
    assert [(arm.name, arm.placement, arm.baseline) for arm in alone.arms] == [
        ("treatment", "cluster", True)
    ]


def test_the_host_namespace_is_known_where_the_stack_has_one():
    assert settings(CREATED).host_namespace == ""
    assert settings({**CREATED, "HostNamespace": "bench-host"}).host_namespace == "bench-host"


def test_the_images_that_plans_may_ask_for_are_none_or_those_that_the_stack_names():
    assert settings(CREATED).allowed_images == ()
    images = tuple(f"registry.corp/{name}@sha256:{'0' * 64}" for name in ("a", "b"))
    named = settings({**CREATED, "AllowedImages": ",".join(images)})
    assert named.allowed_images == images


def test_the_endpoints_that_plans_may_name_are_none_or_those_that_the_stack_allows():
    assert settings(CREATED).endpoints == Endpoints()
    named = settings({**CREATED, "AllowedEndpoints": "10.0.3.5/32,fd00::/8"})
    assert named.endpoints.allowed == ("10.0.3.5/32", "fd00::/8")
    instance = {"address": "10.0.3.7", "instance_id": "i-0123"}
    environment = {"ALLOWED_ENDPOINTS": "", "ENDPOINT_INSTANCE": json.dumps(instance)}
    there = Endpoints.from_environment(environment).instance
    assert there == Endpoint(name="instance", port=None, **instance)


def test_a_cluster_that_exists_has_labels_instead():
    treatment, baseline = settings(EXISTING).arms
    assert (str(treatment.selector), str(baseline.selector)) == (
        "placementGroup=true",
        "placementGroup=false",
    )
    assert (treatment.node_groups, baseline.node_groups) == ((), ())
    assert treatment.whereabouts == "nodes with the labels placementGroup=true"


def test_the_label_of_a_managed_node_group_names_the_node_group():
    arm = settings({**EXISTING, "TreatmentSelector": f"{LABEL}=mine"}).arms[0]
    assert (arm.node_groups, arm.whereabouts) == (("mine",), "node group mine")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("none", [False, False]), ("treatment", [True, False]), ("both", [True, True])],
)
def test_ena_express_of_each_arm(choice, expected):
    assert [a.ena_express for a in settings({**CREATED, "EnaExpress": choice}).arms] == expected


@pytest.mark.parametrize("text", ["fast=", "fast", "!slow,fast", "fast in (a,b)"])
def test_an_arm_has_any_label_selector(text):
    selector = settings({**EXISTING, "TreatmentSelector": text}).arms[0].selector
    assert selector == Selector.parse(text)


def test_a_selector_on_several_node_groups_names_all():
    arm = settings({**EXISTING, "TreatmentSelector": f"{LABEL} in (one,two)"}).arms[0]
    assert (arm.node_groups, arm.whereabouts) == (("one", "two"), "node groups one and two")


def test_load_nodes_belong_to_no_arm():
    assert settings(CREATED).load is None
    selector = "rackrate.dev/arm=load"
    given = {"LoadNodeGroups": "four", "LoadNodeSelector": selector, "LoadNodeCount": "5"}
    stack = settings({**CREATED, **given})
    assert stack.load == StackArm("load", "none", False, ("four",), Selector.parse(selector))
    assert stack.node_sets == (*stack.arms, stack.load)
    assert [stack.count_of(each) for each in stack.node_sets] == [3, 3, 5]
    labelled = settings({**EXISTING, "LoadNodeSelector": f"{LABEL}=mine"})
    assert labelled.load is not None
    assert labelled.load.node_groups == ("mine",)


def test_the_functions_of_campaigns_and_of_runs_have_the_same_environment():
    campaigns = load(ROOT / "templates" / "campaign.yaml")
    assert campaigns["Globals"] == TEMPLATE["Globals"]
    needed = (
        "HasLoadNodes",
        "KnowsNodeGroups",
        "TreatmentUsesEnaExpress",
        "BaselineUsesEnaExpress",
        "RunsInVpc",
    )
    for name in needed:
        assert campaigns["Conditions"][name] == TEMPLATE["Conditions"][name]


@pytest.mark.parametrize(("given", "owns"), [(CREATED, True), (EXISTING, False)])
def test_a_stack_owns_the_nodes_that_it_made(given, owns):
    assert settings(given).owns_nodes is owns
