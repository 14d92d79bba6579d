"""With `--json`, standard output is always one JSON document without text for people."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from .conftest import DeployedStack, Rackrate, estimates, machine, results

RUN = "run-20261121-070512-ab12"
RUN_KEYS = {
    "id", "status", "phase", "block", "last_block", "blocks", "next_look", "stopped_after",
    "pause_seconds", "started_at", "finished_at", "seconds", "waited_seconds",
    "expected_seconds", "expected_block_seconds", "trials_planned", "trials_measured",
    "trials_failed", "conclusion", "error", "cause", "campaign", "missing_nodes",
}  # fmt: skip
KEYS = {"run", "stack", "files", "results", "plan", "requirements", "error"}
PLANNED = json.dumps({"estimates": estimates(), "placeholder_nodes": False}).encode()


def test_a_run_its_results_and_its_requirements_are_one_document(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done", trials_measured=36))))
    stack.put(RUN, "results.json", results(RUN))
    result = rackrate("run", "--json", "--name", RUN, "--require", "tcp-1 worse", code=1)
    document = json.loads(result.stdout)
    assert document.keys() == KEYS | {"directory"}
    assert document["run"].keys() == RUN_KEYS
    assert document["run"]["id"] == RUN and document["run"]["trials_measured"] == 36
    assert document["results"] == json.loads(results(RUN))
    assert document["directory"] == f"out/{RUN}"
    (requirement,) = document["requirements"]
    assert (
        requirement.keys() == {"requirement", "met", "could_not_fail", "why"}
        and requirement["met"] is False
    )
    assert document["error"] is None and document["plan"] is None
    assert "is not met" in result.stderr


@pytest.mark.parametrize("command", ["show", "watch"])
def test_an_earlier_run_is_the_same_document(
    command: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="succeeded", seconds=Decimal("84.2"))
    stack.put("r1", "results.json", results("r1"))
    document = rackrate.json(command, "r1")
    assert document["run"]["seconds"] == 84.2
    assert document["files"] == f"s3://{stack.bucket}/runs/r1/"
    assert document["results"]["run"]["id"] == "r1"


def test_what_json_has_no_word_for_is_null(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record("r1", status="succeeded")
    stack.put("r1", "results.json", results("r1", counters={"odd": float("nan")}))
    result = rackrate("show", "r1", "--json")
    assert "NaN" not in result.stdout
    assert json.loads(result.stdout)["results"]["counters"] == {"odd": None}


def test_a_failed_run_says_why_in_the_document(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record("r1", status="failed", error="LinksDown", cause="2 of 4 pairs\nnode-a: refused")
    for command, code in (("show", 0), ("watch", 1)):
        document = rackrate.json(command, "r1", code=code)
        assert document["error"] == "LinksDown: 2 of 4 pairs\nnode-a: refused"


def test_a_dry_run_is_its_plan(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    stack.put(RUN, "plan.json", PLANNED)
    document = rackrate.json("run", "--dry-run", "--name", RUN)
    assert document["plan"]["estimates"]["seconds"] == 3725.0
    assert document["results"] is None


def test_a_detached_run_is_its_id(stack: DeployedStack, rackrate: Rackrate) -> None:
    document = rackrate.json("run", "--detach", "--name", RUN)
    (execution,) = stack.executions()
    assert document == {
        "run": {"id": RUN},
        "stack": stack.name,
        "execution_arn": execution["executionArn"],
    }


def test_the_list_is_the_runs(stack: DeployedStack, rackrate: Rackrate) -> None:
    assert rackrate.json("list") == {"runs": []}
    stack.record("r1", status="succeeded", conclusion="It is better.")
    stack.record("r2", status="failed", started_at="2026-11-21T09:00:00Z")
    document = rackrate.json("list")
    assert [run["id"] for run in document["runs"]] == ["r2", "r1"]
    assert all(run.keys() == RUN_KEYS for run in document["runs"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "nope"),
        ("watch", "nope"),
        ("plan", "nope"),
        ("run", "--require", "tcp-1 bettr"),
        ("run", "--name", "a b"),
        ("list", "--stack", "elsewhere"),
    ],
)
def test_a_refusal_is_a_document_too(
    arguments: tuple[str, ...], stack: DeployedStack, rackrate: Rackrate
) -> None:
    result = rackrate(*arguments, "--json", code=2)
    document = json.loads(result.stdout)
    assert document.keys() == {"error"}
    assert result.stderr == f"rackrate: {document['error']}\n"


@pytest.mark.parametrize(
    "arguments", [("run", "--plam"), ("show",), ("list", "--limit", "many"), ("lst",)]
)
def test_a_wrong_use_of_the_command_line_is_a_document_too(
    arguments: tuple[str, ...], rackrate: Rackrate
) -> None:
    result = rackrate(*arguments, "--json", code=2)
    assert json.loads(result.stdout)["error"]
    assert "Usage" in result.stderr


def test_results_of_another_schema_are_refused_with_exit_code_2(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="succeeded")
    stack.put("r1", "results.json", results("r1", schema="rackrate.result.v2"))
    for command in ("show", "watch"):
        assert "rackrate.result.v2" in rackrate.json(command, "r1", code=2)["error"]
