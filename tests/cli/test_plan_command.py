"""`rackrate plan`: a dry run of a plan, or the plan of an earlier run to run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import DeployedStack, Rackrate, estimates, machine

PLAN = {
    "arms": ["treatment", "baseline"],
    "baseline": "baseline",
    "tests": [{"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10}],
    "blocks": 6,
    "compare_with": None,
    "seed": 4711,
}


def stored(**changes: object) -> bytes:
    return json.dumps({"plan": {**PLAN, **changes}, "estimates": estimates()}).encode()


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_without_a_run_it_only_plans(
    options: tuple[str, ...], stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    Path("plan.json").write_text('{"blocks": 3}')
    result = rackrate("plan", *options, "--plan", "plan.json", "--seed", "7")
    assert "nothing was measured" in result.stdout
    (execution,) = stack.executions()
    assert stack.input_of(execution) == {"blocks": 3, "seed": 7, "dry_run": True}


def test_the_plan_of_a_run_is_json_that_can_be_run_again(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="succeeded")
    stack.put("r1", "plan.json", stored(dry_run=False))
    printed = rackrate("plan", "latest")
    assert json.loads(printed.stdout) == PLAN
    assert rackrate("plan", "r1", "--json").stdout == printed.stdout
    Path("again.json").write_text(printed.stdout)
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    rackrate("run", "--plan", "again.json")
    assert stack.input_of(stack.executions()[0]) == PLAN


def test_the_plan_of_a_dry_run_measures_when_it_is_run(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="dry_run")
    stack.put("r1", "plan.json", stored(dry_run=True))
    assert "dry_run" not in json.loads(rackrate("plan", "r1").stdout)


@pytest.mark.parametrize("option", [("--dry-run",), ("--plan", "x.json"), ("--seed", "1")])
def test_a_run_and_what_is_to_be_planned_exclude_each_other(
    option: tuple[str, ...], rackrate: Rackrate
) -> None:
    message = rackrate.refused("plan", "r1", *option)
    assert "leave out --dry-run, --plan and --seed, or the run" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "left no plan"), (b"{}", "holds no plan"), (b"x", "holds no plan")],
)
def test_a_run_without_a_plan_is_refused(
    content: bytes | None, message: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="invalid", error="InvalidPlan", cause="blocks: too few")
    if content is not None:
        stack.put("r1", "plan.json", content)
    result = rackrate("plan", "r1", code=2)
    assert message in result.stderr
    assert result.stdout == ""
