"""What the definition does beyond the lint rules E92xx, which know targets, errors and rights."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.statemachine.definition import DEFINITION, definition, states

MACHINE = definition()
TASKS = [(name, state) for name, state in states(MACHINE) if state["Type"] == "Task"]


@pytest.mark.parametrize(("name", "state"), TASKS, ids=[name for name, _ in TASKS])
def test_every_task_ends_retries_what_passes_and_keeps_the_state_when_it_fails(name, state):
    assert 0 < state["TimeoutSeconds"] <= 900
    (retry,) = state["Retry"]
    assert {"ClusterUnreachable", "Throttled", "Lambda.ServiceException"} <= set(
        retry["ErrorEquals"]
    )
    assert retry["JitterStrategy"] == "FULL"
    assert all("ResultPath" in catcher for catcher in state["Catch"]), "a catch drops the state"


def test_all_retries_are_the_same():
    assert len({yaml.safe_dump(state["Retry"]) for _, state in TASKS}) == 1


def test_a_tasks_time_out_is_longer_than_its_functions(function_timeouts):
    for name, state in TASKS:
        function = state["Parameters"]["FunctionName"][2:-1].removesuffix("Arn")
        assert state["TimeoutSeconds"] > function_timeouts[function], name


def test_items_run_one_after_the_other_and_none_can_fail_the_run():
    measure = MACHINE["States"]["Measure"]
    assert measure["MaxConcurrency"] == 1
    assert measure["ToleratedFailurePercentage"] == 100
    assert measure["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"


def test_the_map_has_a_label_that_step_functions_takes():
    """At most 40 characters, none that an ARN could not hold (Step Functions developer guide)."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", MACHINE["States"]["Measure"]["Label"])


def test_links_that_are_down_are_never_tried_again():
    for _, state in TASKS:
        assert "LinksDown" not in state["Retry"][0]["ErrorEquals"]


def test_what_makes_the_stack_idle_is_a_text_so_that_a_choice_can_compare_it():
    start = MACHINE["States"]["Take input"]["Parameters"]
    carried_on = MACHINE["States"]["Plan"]["ResultSelector"]
    for place in (start, carried_on):
        assert place["idle_scale_to_zero"] == "${IdleScaleToZero}"


def test_no_partition_is_written_out():
    assert "arn:aws" not in DEFINITION.read_text()
