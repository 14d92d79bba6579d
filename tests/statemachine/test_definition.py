"""Properties of the definition that the lint rules E92xx do not check.

Those rules check targets, errors and permissions.
"""

from __future__ import annotations

import re

import pytest
import yaml

from tests.statemachine.definition import DEFINITION, ROOT, definition, states
from tests.templates.cloudformation import load

MACHINE = definition()
TASKS = [(name, state) for name, state in states(MACHINE) if state["Type"] == "Task"]


def test_all_retries_are_the_same_and_of_what_passes_by_itself():
    (same,) = {yaml.safe_dump(state["Retry"]) for _, state in TASKS}
    (retry,) = yaml.safe_load(same)
    assert {"ClusterUnreachable", "Throttled", "Lambda.ServiceException"} <= set(
        retry["ErrorEquals"]
    )
    assert retry["JitterStrategy"] == "FULL"


@pytest.mark.parametrize(("name", "state"), TASKS, ids=[name for name, _ in TASKS])
def test_a_catch_keeps_the_state(name, state):
    assert all("ResultPath" in catcher for catcher in state["Catch"])


def test_a_tasks_time_out_is_longer_than_its_functions():
    template = load(ROOT / "templates" / "benchmark.yaml")
    default = template["Globals"]["Function"]["Timeout"]
    for name, state in TASKS:
        function = state["Parameters"]["FunctionName"][2:-1].removesuffix("Arn")
        timeout = template["Resources"][function]["Properties"].get("Timeout", default)
        assert state["TimeoutSeconds"] > timeout, name


def test_items_run_one_after_the_other_and_none_can_fail_the_run():
    measure = MACHINE["States"]["Measure"]
    assert measure["MaxConcurrency"] == 1
    assert measure["ToleratedFailurePercentage"] == 100
    assert measure["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"


def test_the_map_has_a_label_that_step_functions_takes():
    """At most 40 characters, all allowed in an ARN (Step Functions developer guide)."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", MACHINE["States"]["Measure"]["Label"])


def test_no_partition_is_written_out():
    assert "arn:aws" not in DEFINITION.read_text()
