"""Properties of the definition that the lint rules E92xx do not check.

Those rules check targets, errors and permissions.
"""

from __future__ import annotations

import re

import pytest
import yaml

from tests.statemachine.definition import CAMPAIGN, DEFINITION, ROOT, definition, states
from tests.templates.cloudformation import load

MACHINE = definition()
FILES = {"benchmark.yaml": DEFINITION, "campaign.yaml": CAMPAIGN}
TASKS = [
    (template, name, state)
    for template, path in FILES.items()
    for name, state in states(definition(path=path))
    if state["Type"] == "Task"
]
INVOCATIONS = [task for task in TASKS if task[2]["Resource"].endswith(":lambda:invoke")]


def test_all_retries_of_functions_are_the_same_and_of_what_passes_by_itself():
    """A lint rule (E9206) checks the names of Lambda's errors."""
    (same,) = {yaml.safe_dump(state["Retry"]) for _, _, state in INVOCATIONS}
    retriers = yaml.safe_load(same)
    ours = {error for retrier in retriers for error in retrier["ErrorEquals"] if "." not in error}
    assert ours == {"AwsUnavailable", "ClusterUnreachable", "Throttled"}
    assert all(retrier["JitterStrategy"] == "FULL" for retrier in retriers)


@pytest.mark.parametrize(("_", "name", "state"), TASKS, ids=[name for _, name, _ in TASKS])
def test_a_catch_keeps_the_state(_, name, state):
    assert all("ResultPath" in catcher for catcher in state.get("Catch", []))


def test_a_tasks_time_out_is_longer_than_its_functions():
    templates = {name: load(ROOT / "templates" / name) for name in (*FILES, "access.yaml")}
    functions = {
        name: resource["Properties"].get("Timeout") or template["Globals"]["Function"]["Timeout"]
        for template in templates.values()
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }
    for _, name, state in INVOCATIONS:
        function = state["Parameters"]["FunctionName"][2:-1].removesuffix("Arn")
        assert state["TimeoutSeconds"] > functions[function], name


def test_a_campaign_waits_for_a_run_as_long_as_the_run_may_take():
    run = definition(path=CAMPAIGN)["States"]["Run"]
    assert run["TimeoutSeconds"] == MACHINE["TimeoutSeconds"]


def test_a_campaigns_run_is_a_child_that_ends_with_it():
    """The same integration gives the console its link from the run to its campaign."""
    run = definition(path=CAMPAIGN)["States"]["Run"]
    assert run["Resource"].endswith("states:::states:startExecution.sync:2")


def test_items_run_one_after_the_other_and_only_giving_up_ends_the_map():
    measure = MACHINE["States"]["Measure"]
    assert measure["MaxConcurrency"] == 1
    assert not {name for name in measure if name.startswith("ToleratedFailure")}
    items = measure["ItemProcessor"]["States"]
    assert [name for name, state in items.items() if state["Type"] == "Fail"] == ["Gave up"]
    assert measure["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"


def test_the_map_has_a_label_that_step_functions_takes():
    """At most 40 characters, all allowed in an ARN (Step Functions developer guide)."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", MACHINE["States"]["Measure"]["Label"])


def test_no_partition_is_written_out():
    assert not [path for path in FILES.values() if "arn:aws" in path.read_text()]
