"""The definition holds together: targets, time-outs, retries, error names, substitutions."""

from __future__ import annotations

import pytest
import yaml

from rackrate import errors
from tests.statemachine.definition import ROOT, definition, placeholders, scopes, states, successors

MACHINE = definition()
TASKS = [(name, state) for name, state in states(MACHINE) if state["Type"] == "Task"]
EVERY_STATE = list(states(MACHINE))

OUR_ERRORS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.RackrateError)
}
#: What Lambda and Step Functions themselves may say (AWS Step Functions, "Handling errors").
AWS_ERRORS = {
    "States.ALL",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
}


@pytest.mark.parametrize(("name", "scope"), list(scopes(MACHINE)), ids=lambda v: str(v)[:20])
def test_every_target_exists_and_every_state_can_be_reached(name, scope):
    names = set(scope["States"])
    reached, front = set(), {scope["StartAt"]}
    while front:
        state = front.pop()
        assert state in names, f"{state} is a target in {name} but no state there"
        reached.add(state)
        front |= successors(scope["States"][state]) - reached
    assert reached == names


@pytest.mark.parametrize(("name", "state"), EVERY_STATE, ids=[name for name, _ in EVERY_STATE])
def test_every_state_leads_on_or_ends(name, state):
    ends = state.get("End", False) or state["Type"] in ("Succeed", "Fail")
    assert ends != bool(successors(state)), name


@pytest.mark.parametrize(("name", "state"), TASKS, ids=[name for name, _ in TASKS])
def test_every_task_has_a_time_out_retries_and_a_catch_for_everything(name, state):
    assert 0 < state["TimeoutSeconds"] <= 900
    (retry,) = state["Retry"]
    assert {"ClusterUnreachable", "Throttled", "Lambda.ServiceException"} <= set(
        retry["ErrorEquals"]
    )
    assert retry["JitterStrategy"] == "FULL"
    assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert all("ResultPath" in catcher for catcher in state["Catch"]), "a catch drops the state"


def test_all_retries_are_the_same():
    assert len({yaml.safe_dump(state["Retry"]) for _, state in TASKS}) == 1


def test_every_error_name_is_raised_by_someone():
    named = {
        error
        for _, state in EVERY_STATE
        for handler in [*state.get("Retry", []), *state.get("Catch", [])]
        for error in handler["ErrorEquals"]
    }
    sources = "\n".join(p.read_text() for p in (ROOT / "functions").rglob("*.py"))
    for name in named - AWS_ERRORS:
        assert name in OUR_ERRORS, f"{name} is no error of the domain"
        assert f"raise {name}(" in sources, f"nothing raises {name}"


def test_a_tasks_time_out_is_longer_than_its_functions(function_timeouts):
    for name, state in TASKS:
        function = state["Parameters"]["FunctionName"][2:-1].removesuffix("Arn")
        assert state["TimeoutSeconds"] > function_timeouts[function], name


def test_blocks_run_one_after_the_other_and_none_can_fail_the_run():
    blocks = MACHINE["States"]["Blocks"]
    assert blocks["MaxConcurrency"] == 1
    assert blocks["ToleratedFailurePercentage"] == 100
    assert blocks["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"


def test_every_substitution_is_declared_and_used(declared_substitutions):
    assert placeholders() == declared_substitutions


def test_what_makes_the_stack_idle_is_a_text_so_that_a_choice_can_compare_it():
    start = MACHINE["States"]["Take input"]["Parameters"]
    carried_on = MACHINE["States"]["Plan"]["ResultSelector"]
    for place in (start, carried_on):
        assert place["idle_scale_to_zero"] == "${IdleScaleToZero}"


def test_no_partition_is_written_out():
    assert "arn:aws" not in (ROOT / "statemachine" / "benchmark.asl.yaml").read_text()
