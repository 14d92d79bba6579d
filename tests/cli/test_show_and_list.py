"""`rackrate show` and `rackrate list` read the table and the bucket, and start nothing."""

from __future__ import annotations

from decimal import Decimal

from .conftest import DeployedStack, Rackrate, results


def test_show_prints_the_verdict_of_an_old_run_from_the_bucket(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="degraded", phase="done")
    stack.put("r1", "results.json", results("r1"))
    result = rackrate("show", "r1", "--stack", stack.name)
    assert result.exit_code == 0, result.output
    assert "Run r1: degraded" in result.stdout
    assert "987 Mbit/s" in result.stdout
    assert f"s3://{stack.bucket}/runs/r1/" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_latest_is_the_run_that_started_last(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record("new", status="succeeded", started_at="2026-11-21T09:00:00Z")
    stack.record("old", status="succeeded", started_at="2026-11-21T08:00:00Z")
    result = rackrate("show", "latest", "--stack", stack.name)
    assert result.exit_code == 0
    assert "Run new: succeeded" in result.stdout


def test_show_tells_why_a_run_failed(stack: DeployedStack, rackrate: Rackrate) -> None:
    cause = '{"errorType": "NodesUnavailable", "errorMessage": "no capacity in us-east-1a"}'
    stack.record("r1", status="failed", error="NodesUnavailable", cause=cause)
    result = rackrate("show", "r1", "--stack", stack.name)
    assert "Run r1: failed" in result.stdout
    assert "NodesUnavailable: no capacity in us-east-1a" in result.stderr


def test_an_unknown_run_is_refused_in_one_sentence(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    result = rackrate("show", "nope", "--stack", stack.name)
    assert result.exit_code == 2
    assert '"nope"' in result.stderr
    assert result.stderr.count("\n") == 1


def test_latest_of_no_runs_is_refused_in_one_sentence(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    result = rackrate("show", "latest", "--stack", stack.name)
    assert result.exit_code == 2
    assert "no runs yet" in result.stderr


def test_list_is_newest_first_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    for hour in (8, 10, 9):
        stack.record(
            f"run-20261121-{hour:02}0000-abcd",
            status="succeeded",
            started_at=f"2026-11-21T{hour:02}:00:00Z",
            seconds=Decimal("84.2"),
            trials_measured=36,
            trials_failed=0,
        )
    result = rackrate("list", "--stack", stack.name)
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if line.lstrip().startswith("run-")]
    assert [row.split("-")[2][:2] for row in rows] == ["10", "09", "08"]
    assert "1 min 24 s" in rows[0]
    assert max(map(len, result.stdout.splitlines())) <= 80
    limited = rackrate("list", "--stack", stack.name, "--limit", "1").stdout
    assert sum(line.lstrip().startswith("run-") for line in limited.splitlines()) == 1


def test_list_of_nothing_says_so(stack: DeployedStack, rackrate: Rackrate) -> None:
    result = rackrate("list", "--stack", stack.name)
    assert result.exit_code == 0
    assert "no runs yet" in result.stdout
