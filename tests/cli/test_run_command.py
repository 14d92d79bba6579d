"""`rackrate run` against a deployed stack: progress, verdict, failures, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
from pathlib import Path

import pytest
from rackrate_cli.reading.run_ids import new_id

from .conftest import (
    DeployedStack,
    Rackrate,
    Start,
    await_abort,
    estimates,
    failing,
    going_on,
    machine,
    read_terminal,
    results,
)

RUN = "run-20261121-070512-ab12"


def test_a_run_shows_its_blocks_prints_its_verdict_and_keeps_its_files(
    stack: DeployedStack, start: Start
) -> None:
    expected = {"expected_seconds": 4000, "expected_block_seconds": 1200}
    now = {"status": "running", "blocks": 2, **expected}
    stack.define(
        machine(
            ("Wait", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=2, blocks=2)),
        )
    )
    for name in ("trials.csv", "report.html", "plan.json", "schedule.json"):
        stack.put(RUN, name, name.encode())
    stack.put(RUN, "results.json", results(RUN))
    stack.record(RUN, phase="waiting for servers", block=0, **now)
    process = start("run", "--name", RUN)
    progress = []
    for line in process.lines():
        progress.append(line)
        if "waiting for servers" in line:
            stack.record(RUN, phase="block 1 of 2", block=1, **now)
        elif "block 1 of 2" in line:
            stack.let()
    output, _ = process.end()
    assert sum("waiting for servers" in line for line in progress) == 1
    assert sum("block 1 of 2" in line for line in progress) == 1
    assert any("left" in line for line in progress)
    assert "987 Mbit/s" in output
    assert f"Results: out/{RUN}/report.html" in output
    assert Path("out/latest").readlink() == Path(RUN)
    assert json.loads(Path("out/latest/results.json").read_bytes())["run"]["id"] == RUN
    assert sorted(file.name for file in Path("out", RUN).iterdir()) == [
        "plan.json", "report.html", "results.json", "schedule.json", "trials.csv",
    ]  # fmt: skip


def test_the_plan_and_the_name_reach_the_execution(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    Path("plan.json").write_text('{"blocks": 3, "seed": 1}')
    result = rackrate("run", "--plan", "plan.json", "--seed", "7")
    (execution,) = stack.executions()
    assert execution["name"] in result.stderr
    assert stack.input_of(execution) == {"blocks": 3, "seed": 7}


def test_run_ids_made_in_the_same_second_differ() -> None:
    ids = {new_id("run") for _ in range(20)}
    assert len(ids) > 1
    assert all(re.fullmatch(r"run-\d{8}-\d{6}-[0-9a-f]{4}", run_id) for run_id in ids)


def test_a_second_run_moves_latest(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    for name in ("first", "second"):
        stack.put(name, "results.json", results(name))
        rackrate("run", "--name", name)
        assert Path("out/latest").readlink() == Path(name)


def test_every_fault_of_an_invalid_plan_is_printed_and_the_exit_code_is_2(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    lines = ["blocks: must be at least 1; write 6 or more", 'tests[1]: no test "tcp"; write tcp-1']
    stack.define(machine(("Refuse", failing("InvalidPlan", "\n".join(lines)))))
    stack.record(RUN, status="invalid", phase="plan refused")
    result = rackrate("run", "--name", RUN, code=2)
    for line in lines:
        assert line in result.stderr
    assert list(Path("out").iterdir()) == []


def test_a_failed_run_names_its_error_and_shows_what_it_has(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define_failure("TrialsLost", "9 of 36 trials lost")
    stack.put(RUN, "results.json", results(RUN))
    result = rackrate("run", "--name", RUN, code=1)
    assert "TrialsLost: 9 of 36 trials lost" in result.stderr
    assert "987 Mbit/s" in result.stdout
    assert Path("out/latest/results.json").exists()


def test_links_that_are_down_are_named_one_by_one(stack: DeployedStack, rackrate: Rackrate) -> None:
    lines = [
        "2 of 4 pairs could not be measured in the warm-up:",
        "arm treatment, node-a to node-b: Connection refused",
        "Let the security groups of the nodes pass the tests' traffic",
    ]
    stack.define_failure("LinksDown", "\n".join(lines))
    result = rackrate("run", "--name", RUN, code=1)
    assert f"LinksDown: {lines[0]}" in result.stderr
    assert f"  {lines[1]}\n  {lines[2]}" in result.stderr


def test_the_command_waits_for_the_last_status_after_the_execution_failed(
    stack: DeployedStack, start: Start
) -> None:
    recording = stack.recording("running", "block 1 of 6")
    failure = failing("ClusterUnreachable", "no route")
    stack.define(machine(("Record", recording), ("Fail", failure)))
    process = start("run", "--name", RUN)
    process.until("cleaning up")
    assert process.is_running
    stack.record(RUN, status="failed", phase="torn down")
    _, errors = process.end(1)
    assert "ClusterUnreachable: no route" in errors


def test_a_dry_run_prints_its_estimate(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    estimated = {**estimates(), "seconds": 125}
    estimated["at_least"]["seconds"] = 125
    plan = {"estimates": estimated, "placeholder_nodes": False}
    stack.put(RUN, "plan.json", json.dumps(plan).encode())
    result = rackrate("run", "--name", RUN)
    assert "36 trials in 6 blocks, about 2 min 05 s; nothing was measured" in " ".join(
        result.stdout.split()
    )


def test_a_dry_run_whose_plan_is_missing_is_still_shown(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    result = rackrate("run", "--name", RUN)
    assert "6 blocks; nothing was measured" in result.stdout


def test_ctrl_c_stops_the_execution_and_waits_until_the_run_is_aborted(
    stack: DeployedStack, start: Start
) -> None:
    stack.define_endless()
    process = start("run", "--name", RUN)
    process.until("block 1 of 6")
    process.send()
    await_abort(stack.executions)
    assert process.is_running, "it must wait for the clean-up"
    stack.record(RUN, status="aborted", phase="torn down")
    _, errors = process.end(130)
    assert "stopped and cleaned up" in errors
    assert "Traceback" not in errors


def test_a_terminal_that_is_closed_stops_the_execution(stack: DeployedStack, start: Start) -> None:
    stack.define_endless()
    terminal, other_end = pty.openpty()
    process = start("run", "--name", RUN, stderr=other_end)
    os.close(other_end)
    shown = b""
    while b"block 1 of 6" not in shown:
        shown += os.read(terminal, 65536)
    os.close(terminal)
    process.send(signal.SIGHUP)
    await_abort(stack.executions)
    stack.record(RUN, status="aborted", phase="torn down")
    process.end(None)


def test_ctrl_c_before_the_start_leaves_no_run_that_goes_on(
    stack: DeployedStack, start: Start
) -> None:
    stack.define(machine(("Wait", going_on())))
    process = start("run", "--name", RUN)
    assert f"Run {RUN}" in process.until("")
    process.send()
    process.send()
    _, errors = process.end(130)
    assert "Traceback" not in errors
    assert {each["status"] for each in stack.executions()} <= {"ABORTED"}


def test_a_full_disk_hides_no_verdict_and_leaves_no_half_file(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done", blocks=6))))
    stack.put(RUN, "results.json", results(RUN))
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    result = rackrate("run", "--name", RUN, code=1)
    assert "987 Mbit/s" in result.stdout
    assert "No space left on device" in result.stderr
    assert f"`rackrate report {RUN}`" in result.stderr
    assert not [path for path in Path().rglob("*") if path.is_file()]


def test_a_terminal_gets_one_line_that_changes_in_place(stack: DeployedStack, start: Start) -> None:
    expected = {"blocks": 6, "expected_seconds": 4000, "expected_block_seconds": 500}
    stack.define(
        machine(
            ("Measure", stack.recording("running", "measuring", block=2, **expected)),
            ("W", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=6, **expected)),
        )
    )
    terminal, other_end = pty.openpty()
    process = start("run", "--name", RUN, stderr=other_end)
    os.close(other_end)
    shown = b""
    for chunk in read_terminal(terminal):
        shown += chunk
        if b"block 2 of 6" in shown:
            stack.let()
    process.end()
    text = shown.decode()
    assert "measuring, block 2 of 6" in text
    assert "left" in text
    assert "\x1b[2K" in text


@pytest.mark.parametrize("name", ["latest", "a b", "../up", "a/b", "x" * 81, ""])
def test_a_name_that_cannot_be_a_run_id_is_refused(name: str, rackrate: Rackrate) -> None:
    assert "cannot be a run's id" in rackrate.refused("run", "--name", name)


def test_a_name_that_was_used_is_refused(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    rackrate("run", "--name", RUN)
    assert f'There already is a run "{RUN}"' in rackrate("run", "--name", RUN, code=2).stderr


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("run", "--detach")])
def test_the_id_of_a_campaign_is_refused_before_anything_starts(
    command: tuple[str, ...], stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record_campaign(RUN, status="succeeded")
    result = rackrate(*command, "--name", RUN, code=2)
    assert f'a campaign "{RUN}"' in result.stderr and "--name" in result.stderr
    assert stack.executions() == []


def test_results_that_cannot_be_stored_are_noticed_before_the_run(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    Path("out").write_text("a file")
    assert "--out" in rackrate.refused("run")
    assert stack.executions() == []
