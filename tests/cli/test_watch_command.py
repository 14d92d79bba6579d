"""`rackrate watch` follows a run that is already started, and never stops it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from .conftest import (
    PLANNED_RUN,
    DeployedStack,
    Rackrate,
    Start,
    client,
    going_on,
    machine,
    results,
)

RUN = "run-20261121-070512-ab12"


def begin(stack: DeployedStack) -> None:
    """Start a run as somebody else would."""
    client("stepfunctions").start_execution(
        stateMachineArn=stack.state_machine, name=RUN, input="{}"
    )


def test_it_follows_a_run_to_its_end_and_prints_the_verdict(
    stack: DeployedStack, start: Start
) -> None:
    expected = {"blocks": 2, "expected_seconds": 4000, "expected_block_seconds": 1200}
    stack.define(
        machine(
            ("Measure", stack.recording("running", "block 2 of 2", block=2, **expected)),
            ("Wait", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=2, **expected)),
            ("Last", stack.until_let()),
        )
    )
    stack.put(RUN, "results.json", results(RUN))
    begin(stack)
    process = start("watch", RUN, "--out", "out")
    measuring = process.until("block 2 of 2")
    assert measuring.endswith(" left\n")
    stack.let()
    over = process.until("done")
    assert "left" not in over
    stack.let()
    output, _ = process.end()
    assert "987 Mbit/s" in output
    assert Path("out", RUN, "results.json").exists()


def test_lost_trials_are_reported_while_the_run_goes_on_and_each_once(
    stack: DeployedStack, start: Start
) -> None:
    now = {"status": "running", "phase": "measuring", "blocks": 6}
    lost = "Lost 1 trial (treatment, node-a → node-b): node node-b is gone"
    stack.define(
        machine(
            ("Wait", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=6, blocks=6)),
        )
    )
    stack.lose(RUN, 2, "node node-b is gone")
    stack.lose(RUN, 0, "the warm-up failed")
    stack.record(RUN, block=2, trials_failed=1, **now)
    begin(stack)
    process = start("watch", RUN)
    lines = []
    for line in process.lines():
        lines.append(line)
        if "block 2 of 6" in line:
            stack.record(RUN, block=3, trials_failed=2, **now)
        elif "block 3 of 6" in line:
            stack.let()
    assert sum(lost in line for line in lines) == 1
    assert "warm-up" not in "".join(lines)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ctrl_c_ends_the_watching_and_the_run_goes_on(
    number: signal.Signals, code: int, stack: DeployedStack, start: Start
) -> None:
    stack.define_endless()
    begin(stack)
    process = start("watch", RUN)
    process.until("block 1 of 6")
    process.send(number)
    output, errors = process.end(code)
    assert f"Run {RUN} goes on" in errors
    assert output == ""
    assert stack.executions()[0]["status"] == "RUNNING"


def test_a_run_whose_stack_is_deleted_is_over(stack: DeployedStack, start: Start) -> None:
    stack.define_endless()
    begin(stack)
    process = start("watch", RUN)
    process.until("block 1 of 6")
    client("stepfunctions").delete_state_machine(stateMachineArn=stack.state_machine)
    _, errors = process.end(1)
    assert f"Run {RUN} is over: its execution is gone" in errors
    assert stack.bucket in errors and "goes on" not in errors


def test_a_requirement_that_the_run_cannot_meet_ends_the_watching_and_not_the_run(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define_endless("planned", blocks=6)
    stack.put(RUN, "plan.json", json.dumps(PLANNED_RUN).encode())
    begin(stack)
    result = rackrate("watch", RUN, "--require", "rtt better", code=2)
    assert "use one of tcp-1, udp-1 or latency-loaded." in result.stderr
    assert stack.executions()[0]["status"] == "RUNNING"


def test_a_run_that_has_no_record_yet_is_followed_until_somebody_stops_it(
    stack: DeployedStack, start: Start
) -> None:
    stack.define(machine(("Wake", going_on())))
    begin(stack)
    process = start("watch", RUN)
    process.until("starting")
    stack.record(RUN, status="aborted")
    arn = stack.executions()[0]["executionArn"]
    client("stepfunctions").stop_execution(executionArn=arn)
    _, errors = process.end(1)
    assert f"Run {RUN} was stopped and cleaned up." in errors


def test_a_run_that_is_over_is_reported_at_once_though_its_execution_is_forgotten(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="failed", error="TrialsLost", cause="9 of 36 trials lost")
    result = rackrate("watch", "r1", code=1)
    assert "TrialsLost: 9 of 36 trials lost" in result.stderr
    stack.record("r2", status="aborted", started_at="2026-11-21T09:00:00Z")
    result = rackrate("watch", "latest", code=1)
    assert "Run r2 was stopped and cleaned up." in result.stderr


def test_a_run_that_is_not_there_is_refused(stack: DeployedStack, rackrate: Rackrate) -> None:
    message = 'rackrate: There is no run "nope"; `rackrate list` names those there are.\n'
    assert rackrate.refused("watch", "nope") == message


def test_a_detached_run_goes_on_and_can_be_watched_by_its_id(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    result = rackrate("run", "--detach")
    (execution,) = stack.executions()
    assert result.stdout == f"{execution['name']}\n"
    assert "rackrate watch" in result.stderr
    assert not Path("out").exists()
    rackrate("watch", execution["name"])
