"""Properties of the definitions.

statelint checks fields and targets, the lint rule E9205 permissions.
"""

from __future__ import annotations

import re

import pytest
import yaml

from tests import ROOT
from tests.statemachine.definition import (
    CAMPAIGN,
    COMPARISON,
    DEFINITION,
    definition,
    placeholders,
    states,
)
from tests.templates.cloudformation import load

MACHINE = definition()
FILES = {
    DEFINITION: "benchmark.yaml",
    COMPARISON: "benchmark.yaml",
    CAMPAIGN: "campaign.yaml",
}
TASKS = [
    (template, name, state)
    for path, template in FILES.items()
    for name, state in states(definition(path=path))
    if state["Type"] == "Task"
]
INVOCATIONS = [task for task in TASKS if task[2]["Resource"].endswith(":lambda:invoke")]


#: Failures of an invocation that pass by themselves: Lambda is busy, or lost the call, the process
#: of the function ended, or it took too long. Lambda.Unknown is documented for the last two.
PASSING = {
    *("Lambda.AWSLambdaException", "Lambda.ClientExecutionTimeoutException"),
    *("Lambda.EC2ThrottledException", "Lambda.EC2UnexpectedException"),
    *("Lambda.ResourceConflictException", "Lambda.ResourceNotReadyException"),
    *("Lambda.SdkClientException", "Lambda.ServiceException", "Lambda.TooManyRequestsException"),
    *("Runtime.ExitError", "Runtime.OutOfMemory"),
    *("Lambda.Unknown", "Sandbox.Timedout", "States.Timeout"),
}


def test_all_retries_of_functions_are_the_same_and_of_what_passes_by_itself():
    """States.TaskFailed and States.ALL would also retry a mistake of the user."""
    (same,) = {yaml.safe_dump(state["Retry"]) for _, _, state in INVOCATIONS}
    retriers = yaml.safe_load(same)
    retried = {error for retrier in retriers for error in retrier["ErrorEquals"]}
    assert retried == PASSING | {"AwsUnavailable", "ClusterUnreachable", "Throttled"}
    assert all(retrier["JitterStrategy"] == "FULL" for retrier in retriers)
    assert all(retrier["MaxAttempts"] > 0 for retrier in retriers)


def test_every_error_that_a_state_retries_or_catches_is_raised_by_somebody():
    """Step Functions compares class names, so a base class or a renamed class never matches."""
    sources = [path.read_text() for path in (ROOT / "functions").rglob("*.py")]
    raised = {
        name for text in sources for name in re.findall(r"(?m)^\s*raise (?:\w+\.)*(\w+)", text)
    }
    of_states = {"States.ALL", "States.ExceedToleratedFailureThreshold", "States.ItemReaderFailed"}
    for path in FILES:
        for name, state in states(definition(path=path)):
            for handler in (*state.get("Retry", []), *state.get("Catch", [])):
                known = raised | PASSING | of_states
                if "states:startExecution" in state.get("Resource", ""):
                    known |= {e for e in handler["ErrorEquals"] if e.startswith("StepFunctions.")}
                assert set(handler["ErrorEquals"]) <= known, name


@pytest.mark.parametrize(("_", "name", "state"), TASKS, ids=[name for _, name, _ in TASKS])
def test_a_task_ends_and_is_retried_and_all_its_errors_are_caught(_, name, state):
    assert {"TimeoutSeconds", "TimeoutSecondsPath"} & state.keys()
    assert state["Retry"]
    # Whoever holds a token decides with which error the state fails.
    if not state["Resource"].endswith(".waitForTaskToken"):
        assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


def test_a_map_catches_everything_and_a_choice_has_a_default():
    for path in FILES:
        for name, state in states(definition(path=path)):
            if state["Type"] in ("Map", "Parallel"):
                assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name
            assert state["Type"] != "Choice" or "Default" in state, name


def test_the_template_substitutes_exactly_what_a_definition_asks_for():
    for path, template in FILES.items():
        resources = load(ROOT / "templates" / template)["Resources"].values()
        (declared,) = (
            resource["Properties"]["DefinitionSubstitutions"].keys()
            for resource in resources
            if resource["Type"] == "AWS::Serverless::StateMachine"
            and resource["Properties"]["DefinitionUri"].endswith(f"/{path.name}")
        )
        assert declared == placeholders(path)


@pytest.mark.parametrize(("_", "name", "state"), TASKS, ids=[name for _, name, _ in TASKS])
def test_a_catch_keeps_the_state(_, name, state):
    assert all("ResultPath" in catcher for catcher in state.get("Catch", []))


def test_a_tasks_time_out_is_longer_than_its_functions():
    templates = {name: load(ROOT / "templates" / name) for name in {*FILES.values(), "access.yaml"}}
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
