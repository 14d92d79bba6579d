"""`rackrate run` against a deployed stack: progress, verdict, failures, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rackrate_cli.reading.run_ids import new_run_id

from tests.waiting import HUNG_SECONDS

from .conftest import DeployedStack, Rackrate, estimates, going_on, machine, results

RUN = "run-20261121-070512-ab12"


def test_a_run_shows_its_blocks_prints_its_verdict_and_keeps_its_files(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
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
    out = tmp_path / "out"
    process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", out)
    assert process.stderr is not None
    progress = []
    for line in process.stderr:
        progress.append(line)
        if "waiting for servers" in line:
            stack.record(RUN, phase="block 1 of 2", block=1, **now)
        elif "block 1 of 2" in line:
            stack.let()
    output, _ = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 0, progress
    assert sum("waiting for servers" in line for line in progress) == 1
    assert sum("block 1 of 2" in line for line in progress) == 1
    assert any("left" in line for line in progress)
    assert "987 Mbit/s" in output
    assert f"Results: {out / RUN / 'report.html'}" in output
    assert (out / "latest").readlink() == Path(RUN)
    assert json.loads((out / "latest" / "results.json").read_bytes())["run"]["id"] == RUN
    assert sorted(file.name for file in (out / RUN).iterdir()) == [
        "plan.json", "report.html", "results.json", "schedule.json", "trials.csv",
    ]  # fmt: skip


def test_the_plan_and_the_name_reach_the_execution(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    plan = tmp_path / "plan.json"
    plan.write_text('{"blocks": 3, "seed": 1}')
    result = rackrate(
        "run", "--stack", stack.name, "--plan", plan, "--seed", "7", "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    (execution,) = stack.executions()
    assert execution["name"] in result.stderr
    assert stack.input_of(execution) == {"blocks": 3, "seed": 7}


def test_run_ids_made_in_the_same_second_differ() -> None:
    ids = {new_run_id() for _ in range(20)}
    assert len(ids) > 1
    assert all(re.fullmatch(r"run-\d{8}-\d{6}-[0-9a-f]{4}", run_id) for run_id in ids)


def test_a_second_run_moves_latest(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    for name in ("first", "second"):
        stack.put(name, "results.json", results(name))
        result = rackrate("run", "--stack", stack.name, "--name", name, "--out", tmp_path)
        assert result.exit_code == 0, result.output
        assert (tmp_path / "latest").readlink() == Path(name)


def test_every_fault_of_an_invalid_plan_is_printed_and_the_exit_code_is_2(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    lines = ["blocks: must be at least 1; write 6 or more", 'tests[1]: no test "tcp"; write tcp-1']
    cause = json.dumps({"errorMessage": "\n".join(lines), "errorType": "InvalidPlan"})
    stack.define(machine(("Refuse", {"Type": "Fail", "Error": "InvalidPlan", "Cause": cause})))
    stack.record(RUN, status="invalid", phase="plan refused")
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 2
    for line in lines:
        assert line in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_names_its_error_and_shows_what_it_has(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    cause = json.dumps({"errorMessage": "9 of 36 trials lost", "errorType": "TrialsLost"})
    stack.define(
        machine(
            ("Record", stack.recording("failed", "torn down")),
            ("Fail", {"Type": "Fail", "Error": "TrialsLost", "Cause": cause}),
        )
    )
    stack.put(RUN, "results.json", results(RUN))
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 1
    assert "TrialsLost: 9 of 36 trials lost" in result.stderr
    assert "987 Mbit/s" in result.stdout
    assert (tmp_path / "latest" / "results.json").exists()


def test_links_that_are_down_are_named_one_by_one(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    lines = [
        "2 of 4 pairs could not be measured in the warm-up:",
        "arm treatment, node-a to node-b: Connection refused",
        "Let the security groups of the nodes pass the tests' traffic",
    ]
    cause = json.dumps({"errorMessage": "\n".join(lines), "errorType": "LinksDown"})
    stack.define(
        machine(
            ("Record", stack.recording("failed", "torn down")),
            ("Fail", {"Type": "Fail", "Error": "LinksDown", "Cause": cause}),
        )
    )
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 1
    assert f"LinksDown: {lines[0]}" in result.stderr
    assert f"  {lines[1]}\n  {lines[2]}" in result.stderr


def test_the_command_waits_for_the_last_status_after_the_execution_failed(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    stack.define(
        machine(
            ("Record", stack.recording("running", "block 1 of 6")),
            ("Fail", {"Type": "Fail", "Error": "ClusterUnreachable", "Cause": "no route"}),
        )
    )
    process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if "cleaning up" in line:
            break
    assert process.poll() is None
    stack.record(RUN, status="failed", phase="torn down")
    _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 1
    assert "ClusterUnreachable: no route" in errors


def test_a_dry_run_prints_its_estimate(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    told = {**estimates(), "seconds": 125}
    told["at_least"]["seconds"] = 125
    plan = {"estimates": told, "placeholder_nodes": False}
    stack.put(RUN, "plan.json", json.dumps(plan).encode())
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "36 trials in 6 blocks, about 2 min 05 s; nothing was measured" in " ".join(
        result.stdout.split()
    )


def test_a_dry_run_whose_plan_is_gone_is_still_shown(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "6 blocks; nothing was measured" in result.stdout


def test_ctrl_c_stops_the_execution_and_waits_until_the_run_is_aborted(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    stack.define(
        machine(("Measure", stack.recording("running", "block 1 of 6")), ("Wait", going_on()))
    )
    process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if "block 1 of 6" in line:
            break
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + HUNG_SECONDS
    while stack.executions()[0]["status"] != "ABORTED" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert stack.executions()[0]["status"] == "ABORTED"
    assert process.poll() is None, "it must wait for the clean-up"
    stack.record(RUN, status="aborted", phase="torn down")
    _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 130
    assert "stopped and cleaned up" in errors
    assert "Traceback" not in errors


def test_a_terminal_that_is_closed_stops_the_execution(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    stack.define(
        machine(("Measure", stack.recording("running", "block 1 of 6")), ("Wait", going_on()))
    )
    terminal, other_end = pty.openpty()
    process = start_rackrate(
        "run", "--stack", stack.name, "--name", RUN, "--out", tmp_path, stderr=other_end
    )
    os.close(other_end)
    shown = b""
    while b"block 1 of 6" not in shown:
        shown += os.read(terminal, 65536)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + HUNG_SECONDS
    while stack.executions()[0]["status"] != "ABORTED" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert stack.executions()[0]["status"] == "ABORTED"
    stack.record(RUN, status="aborted", phase="torn down")
    process.communicate(timeout=HUNG_SECONDS)


def test_ctrl_c_before_the_start_leaves_no_run_that_goes_on(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    stack.define(machine(("Wait", going_on())))
    process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert process.stderr is not None
    assert f"Run {RUN}" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert {each["status"] for each in stack.executions()} <= {"ABORTED"}


def test_a_full_disk_hides_no_verdict_and_leaves_no_half_file(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done", blocks=6))))
    stack.put(RUN, "results.json", results(RUN))
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    result = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 1
    assert "987 Mbit/s" in result.stdout
    assert "No space left on device" in result.stderr
    assert f"`rackrate report {RUN}`" in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_terminal_gets_one_line_that_changes_in_place(
    stack: DeployedStack,
    start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    expected = {"blocks": 6, "expected_seconds": 4000, "expected_block_seconds": 500}
    stack.define(
        machine(
            ("Measure", stack.recording("running", "measuring", block=2, **expected)),
            ("W", stack.until_let()),
            ("Done", stack.recording("succeeded", "done", block=6, **expected)),
        )
    )
    terminal, other_end = pty.openpty()
    process = start_rackrate(
        "run", "--stack", stack.name, "--name", RUN, "--out", tmp_path, stderr=other_end
    )
    os.close(other_end)
    shown = b""
    try:
        while chunk := os.read(terminal, 65536):
            shown += chunk
            if b"block 2 of 6" in shown:
                stack.let()
    except OSError:  # Linux reports the closed other end of a terminal as an error.
        pass
    os.close(terminal)
    process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 0
    text = shown.decode()
    assert "measuring, block 2 of 6" in text
    assert "left" in text
    assert "\x1b[2K" in text


@pytest.mark.parametrize("name", ["latest", "a b", "../up", "a/b", "x" * 81, ""])
def test_a_name_that_cannot_be_a_run_id_is_refused(name: str, rackrate: Rackrate) -> None:
    result = rackrate("run", "--name", name)
    assert result.exit_code == 2
    assert "cannot be a run's id" in result.stderr


def test_a_name_that_was_used_is_refused(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    arguments = ("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert rackrate(*arguments).exit_code == 0
    result = rackrate(*arguments)
    assert result.exit_code == 2
    assert f'There already is a run "{RUN}"' in result.stderr


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("run", "--detach")])
def test_the_id_of_a_campaign_is_refused_before_anything_starts(
    command: tuple[str, ...], stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    stack.record_campaign(RUN, status="succeeded")
    result = rackrate(*command, "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert result.exit_code == 2
    assert f'a campaign "{RUN}"' in result.stderr and "--name" in result.stderr
    assert stack.executions() == []


def test_results_that_cannot_be_kept_are_noticed_before_the_run(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("a file")
    result = rackrate("run", "--stack", stack.name, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--out" in result.stderr
    assert stack.executions() == []
