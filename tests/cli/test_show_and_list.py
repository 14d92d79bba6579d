"""`rackrate show` and `rackrate list` read the table and the bucket, and start nothing."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal

import pytest
from rackrate_cli.reading.campaigns import Campaign
from rackrate_cli.reading.runs import Run

from .conftest import DeployedStack, Rackrate, table


def test_show_prints_the_verdict_of_an_old_run_from_the_bucket(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1", status="degraded", phase="done")
    result = rackrate("show", "r1")
    assert "Run r1: degraded" in result.stdout
    assert "987 Mbit/s" in result.stdout
    assert f"s3://{stack.bucket}/runs/r1/" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_latest_is_the_run_that_started_last(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record("new", status="succeeded", started_at="2026-11-21T09:00:00Z")
    stack.record("old", status="succeeded", started_at="2026-11-21T08:00:00Z")
    result = rackrate("show", "latest")
    assert "Run new: succeeded" in result.stdout


def test_show_prints_why_a_run_failed(stack: DeployedStack, rackrate: Rackrate) -> None:
    cause = '{"errorType": "NodesUnavailable", "errorMessage": "no capacity in us-east-1a"}'
    stack.record("r1", status="failed", error="NodesUnavailable", cause=cause)
    result = rackrate("show", "r1")
    assert "Run r1: failed" in result.stdout
    assert "NodesUnavailable: no capacity in us-east-1a" in result.stderr


def test_an_unknown_run_is_refused_in_one_sentence(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    assert '"nope"' in rackrate.refused("show", "nope")
    assert "no runs yet" in rackrate.refused("show", "latest")


def test_list_is_newest_first_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    for hour in (8, 10, 9):
        stack.record(
            f"run-20261121-{hour:02}0000-abcd",
            status="succeeded",
            started_at=f"2026-11-21T{hour:02}:00:00Z",
            seconds=Decimal("36184.2"),
            trials_measured=36,
            trials_failed=0,
        )
    result = rackrate("list")
    rows = [line for line in result.stdout.splitlines() if line.lstrip().startswith("run-")]
    assert [row.split("-")[2][:2] for row in rows] == ["10", "09", "08"]
    assert [row.split()[0] for row in rows] == [
        f"run-20261121-{hour}0000-abcd" for hour in ("10", "09", "08")
    ], "an id is not broken, as it is to be copied"
    assert "10 h 03 min" in rows[0]
    assert max(map(len, result.stdout.splitlines())) <= 80
    limited = rackrate("list", "--limit", "1").stdout
    assert sum(line.lstrip().startswith("run-") for line in limited.splitlines()) == 1


def test_list_leaves_out_other_statuses_before_it_counts(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for hour, status in enumerate(("failed", "timed_out", "succeeded", "dry_run"), 10):
        stack.record(f"of-{hour}", status=status, started_at=f"2026-11-21T{hour}:00:00Z")
    shown = rackrate("list", "--status", "failed", "--status", "timed_out", "--limit", "1").stdout
    assert "of-11" in shown and "timed out" in shown
    assert "of-10" not in shown and "of-12" not in shown
    assert "no run that is running" in rackrate("list", "--status", "running").stdout
    assert "degraded" in rackrate("list", "--status", "lost", code=2).stderr


def test_a_wide_terminal_also_shows_the_conclusions(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.record("r1", status="succeeded", conclusion="The cluster placement group is better.")
    for columns, is_shown in ((80, False), (140, True)):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = rackrate("list").stdout
        assert ("The cluster placement group is better." in shown) is is_shown
        assert max(map(len, shown.splitlines())) <= columns


def test_show_prints_how_long_a_run_took_apart_from_what_it_waited(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="succeeded", seconds=Decimal(42), waited_seconds=Decimal(181))
    shown = rackrate("show", "r1").output
    assert "Run r1: succeeded, took 42 s, after 3 min 01 s of waiting" in shown


def test_show_prints_a_stop_without_the_name_of_an_error(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="aborted", error="StoppedByCaller", cause="The run was stopped.")
    result = rackrate("show", "r1")
    assert "rackrate: The run was stopped." in result.output
    assert "StoppedByCaller" not in result.output


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "running", "phase": "starting servers"}, ["starting servers", "watch r1"]),
        (
            {"status": "running", "phase": "measuring", "block": 2, "blocks": 6},
            ["measuring, block 2 of 6"],
        ),
        ({"status": "aborted"}, ["Run r1: aborted"]),
        ({"status": "timed_out", "error": "States.Timeout", "cause": "two days"}, ["two days"]),
        ({"status": "invalid", "error": "InvalidPlan", "cause": "blocks: 0"}, ["a fault"]),
        ({"status": "dry_run", "blocks": 6}, ["nothing was measured"]),
        ({"status": "succeeded"}, ["Run r1: succeeded"]),
    ],
)
def test_show_prints_each_state_of_a_run(
    fields: dict[str, object], words: list[str], stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", **fields)
    result = rackrate("show", "r1")
    for word in words:
        assert word in result.output


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": "running", "phase": "measuring"}, "still going"),
        ({"status": "dry_run"}, "Run r1 (dry run) has no results"),
        ({"status": "aborted"}, "Run r1 (aborted) has no results"),
    ],
)
def test_a_verdict_is_not_required_of_a_run_that_has_none(
    fields: dict[str, object], message: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", **fields)
    assert message in rackrate.refused("show", "r1", "--require", "tcp-1 better")


@pytest.mark.parametrize("value", [True, Decimal("9.9e125"), "text", ["a", 1], {"a": {}}, {1, 2}])
def test_an_item_with_any_values_is_listed_with_the_others(
    value: object, stack: DeployedStack, rackrate: Rackrate
) -> None:
    names = {field.name for kind in (Run, Campaign) for field in fields(kind)}
    names |= {"stopped", "missing_since", "changed"}
    odd = dict.fromkeys(names - {"run_id", "campaign_id"}, value)
    stack.record("odd", **{**odd, "started_at": "2026-11-22T08:00:00Z"})
    stack.record("mine", status="succeeded")
    stack.record_campaign("odd-2", **{**odd, "started_at": "2026-11-22T08:00:00Z"})
    stack.record_campaign("mine-2", status="succeeded")
    table(stack.table).put_item(
        Item={"pk": "baseline#odd-3", "sk": "baseline", "gsi1pk": "baselines", "gsi1sk": "odd"}
    )
    for command, name in (
        (("list",), "mine"),
        (("campaign", "list"), "mine-2"),
        (("baseline", "list"), "odd-3"),
        (("list", "--json"), "mine"),
        (("campaign", "list", "--json"), "mine-2"),
    ):
        assert name in rackrate(*command).stdout


def test_list_of_nothing_says_so(stack: DeployedStack, rackrate: Rackrate) -> None:
    result = rackrate("list")
    assert "no runs yet" in result.stdout


def test_what_a_tool_printed_cannot_command_the_terminal(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    hostile = "no\x1b]0;owned\x07 \x1b]52;c;cm0=\x07route\x1b[2J\x9b31m\u202e to host"
    stack.record("r1", status="failed", phase=hostile, error="TrialsLost", cause=hostile)
    result = rackrate("show", "r1")
    assert "no route to host" in result.stderr
    assert "owned" not in result.output
    assert not {*"\x1b\x07\x9b\u202e"} & {*result.output}


def test_json_keeps_a_hostile_text_as_it_is(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record("r1", status="failed", phase="\x1b[2J", error="X", cause="x")
    result = rackrate("show", "r1", "--json")
    assert "\x1b" not in result.stdout
    assert json.loads(result.stdout)["run"]["phase"] == "\x1b[2J"
