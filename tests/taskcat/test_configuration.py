"""The tests of .taskcat.yml: the template accepts each, and together they cover all choices."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.aws.cloudformation.parameters import resolve_parameters
from lab.aws.cloudformation.template import TemplateError, parse_template
from tests.lab.running import SHORT
from tests.taskcat.deploying import CONFIGURATION, ROOT

CONFIGURED: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text("utf-8"))
TEMPLATES = {
    name: parse_template((ROOT / name).read_text("utf-8"))
    for name in ("template.yaml", "existing-cluster.yaml")
}
FOR_EVERY_TEST: dict[str, Any] = CONFIGURED["project"]["parameters"]
TESTS: dict[str, dict[str, Any]] = {
    name: test["parameters"] for name, test in CONFIGURED["tests"].items()
}
# Values that only an account's owner knows. taskcat reads them from its Parameter Store.
PLACEHOLDER = re.compile(r"\$\[taskcat_ssm_(/rackrate/taskcat/[a-z-]+)\]")
IN_AN_ACCOUNT = {
    "/rackrate/taskcat/treatment-capacity-reservation": "cr-0123456789abcdef0",
    "/rackrate/taskcat/baseline-capacity-reservation": "cr-0123456789abcdef1",
    "/rackrate/taskcat/placement-group": "reserved",
    "/rackrate/taskcat/zone": "us-east-1a",
    "/rackrate/taskcat/cluster": "platform",
    "/rackrate/taskcat/subnets": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    "/rackrate/taskcat/treatment-selector": "eks.amazonaws.com/nodegroup=fast",
    "/rackrate/taskcat/baseline-selector": "eks.amazonaws.com/nodegroup=plain",
    "/rackrate/taskcat/alarm-topic": "arn:aws:sns:us-east-1:123456789012:alarms",
}
# Parameters that no test varies, and the reason.
NOT_VARIED = {
    "Tolerations": "an account's cluster may have no taints; the lab's pools have one",
    "LoadNodeSelector": "an account's cluster may have two groups of nodes only",
    "AllowedImages": "it changes nothing before a plan asks for one",
    "AllowedEndpoints": "it changes nothing before a plan names one",
    "OnDemandNodeCount": "an account's cluster may have no autoscaler; the lab's pools are one",
}


def test_every_value_is_text_because_taskcat_makes_python_text_of_others() -> None:
    others = {
        f"{test}: {name}"
        for test, parameters in (TESTS | {"project": FOR_EVERY_TEST}).items()
        for name, value in parameters.items()
        if not isinstance(value, str)
    }
    assert others == set()


def test_no_test_sets_what_the_project_would_overrule() -> None:
    assert {name: set(parameters) & set(FOR_EVERY_TEST) for name, parameters in TESTS.items()} == {
        name: set() for name in TESTS
    }


@pytest.mark.parametrize("test", TESTS)
def test_the_template_accepts_the_parameters_of(test: str) -> None:
    check(test, TESTS[test] | FOR_EVERY_TEST)


def test_what_a_template_refuses_would_be_noticed() -> None:
    with pytest.raises(TemplateError, match="PartitionCount"):
        check("default", {"PartitionCount": "8"})


def test_every_choice_of_the_stack_is_tried_by_a_test_or_has_its_reason() -> None:
    varied = {
        name
        for test, parameters in TESTS.items()
        for name, value in {**parameters, **FOR_EVERY_TEST}.items()
        if value != str(template_of(test)["Parameters"][name].get("Default"))
    }
    names = {name for template in TEMPLATES.values() for name in template["Parameters"]}
    assert names - varied == set(NOT_VARIED)


def test_no_two_tests_choose_the_same() -> None:
    choices = [
        {name: value for name, value in parameters.items() if name != "RunOnCreate"}
        for parameters in TESTS.values()
    ]
    assert [chosen for chosen in choices if choices.count(chosen) > 1] == []
    assert TESTS["default"].keys() == {"RunOnCreate"}


def test_numbers_have_quoted_defaults_since_taskcat_drops_what_is_set_for_others() -> None:
    unquoted = [
        name
        for template in TEMPLATES.values()
        for name, parameter in template["Parameters"].items()
        if not isinstance(parameter.get("Default", ""), str)
    ]
    assert unquoted == []


def test_runs_on_create_are_the_short_plan_where_the_run_is_the_point() -> None:
    runs = {
        name: json.loads(parameters["RunOnCreate"])
        for name, parameters in TESTS.items()
        if "RunOnCreate" in parameters
    }
    assert set(runs) == {
        *("default", "ena-express", "existing-cluster", "private-nat", "private-endpoints"),
    }
    warmed_up = {name: value for name, value in SHORT.items() if name != "warm_up"}
    looking = {**warmed_up, "blocks": {"least": 2, "most": 3}}
    assert runs.pop("private-nat") == looking
    assert all(plan == SHORT for plan in runs.values())


def template_of(test: str) -> dict[str, Any]:
    """The template that a test deploys."""
    path = CONFIGURED["tests"][test].get("template", CONFIGURED["project"]["template"])
    return TEMPLATES[Path(path).name]


def check(test: str, parameters: Mapping[str, str]) -> None:
    """Raise TemplateError for parameters that CloudFormation refuses before it creates anything."""
    rendered = {
        name: PLACEHOLDER.sub(lambda match: IN_AN_ACCOUNT[match[1]], value)
        for name, value in parameters.items()
    }
    resolve_parameters(template_of(test), rendered)
