"""`rackrate watch` follows a run that is already started, and never stops it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import HUNG_SECONDS

from .conftest import DeployedStack, Rackrate, client, going_on, machine, results

RUN = "run-20261121-070512-ab12"

PLANNED = b"""{
    "plan": {"tests": [{"name": "tcp-1"}], "baseline": "baseline"},
    "metrics": [{"test": "tcp-1", "metric": "throughput"}],
    "arms": [{"name": "treatment"}, {"name": "baseline"}]
}"""

type StartRackrate = Callable[..., subprocess.Popen[str]]


def start(stack: DeployedStack) -> None:
    """Start a run as somebody else would."""
    client("stepfunctions").start_execution(
        stateMachineArn=stack.state_machine, name=RUN, input="{}"
    )


def test_it_follows_a_run_to_its_end_and_prints_the_verdict(
    stack: DeployedStack, start_rackrate: StartRackrate, tmp_path: Path
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
    start(stack)
    process = start_rackrate("watch", RUN, "--stack", stack.name, "--out", tmp_path)
    assert process.stderr is not None
    measuring = next(line for line in process.stderr if "block 2 of 2" in line)
    assert measuring.endswith(" left\n")
    stack.let()
    over = next(line for line in process.stderr if "done" in line)
    assert "left" not in over
    stack.let()
    output, _ = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 0
    assert "987 Mbit/s" in output
    assert (tmp_path / RUN / "results.json").exists()


def test_lost_trials_are_told_while_the_run_goes_on_and_each_once(
    stack: DeployedStack, start_rackrate: StartRackrate
) -> None:
    said = {"status": "running", "phase": "measuring", "blocks": 6}
    lost = "Lost 1 trial (treatment, node-a → node-b): node node-b is gone"
    stack.define(
        machine(
            ("Wait", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=6, blocks=6)),
        )
    )
    stack.lose(RUN, 2, "node node-b is gone")
    stack.lose(RUN, 0, "the warm-up failed")
    stack.record(RUN, block=2, trials_failed=1, **said)
    start(stack)
    process = start_rackrate("watch", RUN, "--stack", stack.name)
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if "block 2 of 6" in line:
            stack.record(RUN, block=3, trials_failed=2, **said)
        elif "block 3 of 6" in line:
            stack.let()
    assert sum(lost in line for line in told) == 1
    assert "warm-up" not in "".join(told)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ctrl_c_ends_the_watching_and_the_run_goes_on(
    number: signal.Signals, code: int, stack: DeployedStack, start_rackrate: StartRackrate
) -> None:
    stack.define(
        machine(("Measure", stack.recording("running", "block 1 of 6")), ("Wait", going_on()))
    )
    start(stack)
    process = start_rackrate("watch", RUN, "--stack", stack.name)
    assert process.stderr is not None
    for line in process.stderr:
        if "block 1 of 6" in line:
            break
    process.send_signal(number)
    output, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == code
    assert f"Run {RUN} goes on" in errors
    assert output == ""
    assert stack.executions()[0]["status"] == "RUNNING"


def test_a_run_whose_stack_is_deleted_is_said_to_be_over(
    stack: DeployedStack, start_rackrate: StartRackrate
) -> None:
    stack.define(
        machine(("Measure", stack.recording("running", "block 1 of 6")), ("Wait", going_on()))
    )
    start(stack)
    process = start_rackrate("watch", RUN, "--stack", stack.name)
    assert process.stderr is not None
    assert any("block 1 of 6" in line for line in process.stderr)
    client("stepfunctions").delete_state_machine(stateMachineArn=stack.state_machine)
    _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 1
    assert f"Run {RUN} is over: its execution is gone" in errors
    assert stack.bucket in errors and "goes on" not in errors


def test_a_requirement_that_the_run_cannot_meet_ends_the_watching_and_not_the_run(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(
        machine(
            ("Planned", stack.recording("running", "planned", blocks=6)),
            ("Wait", going_on()),
        )
    )
    stack.put(RUN, "plan.json", PLANNED)
    start(stack)
    result = rackrate("watch", RUN, "--stack", stack.name, "--require", "rtt better")
    assert result.exit_code == 2
    assert "use one of tcp-1." in result.stderr
    assert stack.executions()[0]["status"] == "RUNNING"


def test_a_run_that_has_no_record_yet_is_followed_until_somebody_stops_it(
    stack: DeployedStack, start_rackrate: StartRackrate
) -> None:
    stack.define(machine(("Wake", going_on())))
    start(stack)
    process = start_rackrate("watch", RUN, "--stack", stack.name)
    assert process.stderr is not None
    for line in process.stderr:
        if "starting" in line:
            break
    stack.record(RUN, status="aborted")
    arn = stack.executions()[0]["executionArn"]
    client("stepfunctions").stop_execution(executionArn=arn)
    _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 1
    assert f"Run {RUN} was stopped and cleaned up." in errors


def test_a_run_that_is_over_is_told_at_once_though_its_execution_is_forgotten(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="failed", error="TrialsLost", cause="9 of 36 trials lost")
    result = rackrate("watch", "r1", "--stack", stack.name)
    assert result.exit_code == 1
    assert "TrialsLost: 9 of 36 trials lost" in result.stderr
    stack.record("r2", status="aborted", started_at="2026-11-21T09:00:00Z")
    result = rackrate("watch", "latest", "--stack", stack.name)
    assert result.exit_code == 1
    assert "Run r2 was stopped and cleaned up." in result.stderr


def test_a_run_that_is_not_there_is_refused(stack: DeployedStack, rackrate: Rackrate) -> None:
    result = rackrate("watch", "nope", "--stack", stack.name)
    assert result.exit_code == 2
    assert result.stderr == (
        'rackrate: There is no run "nope"; `rackrate list` names those there are.\n'
    )


def test_a_detached_run_goes_on_and_can_be_watched_by_its_id(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    out = tmp_path / "out"
    result = rackrate("run", "--detach", "--stack", stack.name, "--out", out)
    assert result.exit_code == 0, result.output
    (execution,) = stack.executions()
    assert result.stdout == f"{execution['name']}\n"
    assert "rackrate watch" in result.stderr
    assert not out.exists()
    assert rackrate("watch", execution["name"], "--stack", stack.name).exit_code == 0
