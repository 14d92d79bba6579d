"""`rackrate baseline` stores names for runs in the table, in the form the functions read."""

from __future__ import annotations

import json

from .conftest import DeployedStack, Rackrate, results, table


def measured(stack: DeployedStack, run_id: str, **fields: object) -> None:
    """Record a run that is over, with its results."""
    stack.record(run_id, **{"status": "succeeded", "trials_measured": 36, **fields})
    stack.put(run_id, "results.json", results(run_id))


def test_a_baseline_is_an_item_that_the_functions_find(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    measured(stack, "r1")
    done = rackrate("baseline", "set", "golden", "latest", "--stack", stack.name)
    assert done.exit_code == 0, done.output
    assert "Baseline golden is run r1." in done.stdout
    item = table(stack.table).get_item(Key={"pk": "baseline#golden", "sk": "baseline"})["Item"]
    assert item.pop("set_at").endswith("Z")
    assert item == {
        "pk": "baseline#golden",
        "sk": "baseline",
        "name": "golden",
        "run_id": "r1",
        "gsi1pk": "baselines",
        "gsi1sk": "golden",
    }


def test_a_baseline_that_is_set_again_names_the_new_run(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    measured(stack, "r1")
    measured(stack, "r2")
    rackrate("baseline", "set", "golden", "r1", "--stack", stack.name)
    done = rackrate("baseline", "set", "golden", "r2", "--stack", stack.name, "--json")
    answer = json.loads(done.stdout)
    assert answer["baseline"]["run_id"] == "r2"
    assert answer["was"]["run_id"] == "r1"


def test_list_is_by_name_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    run_id = "run-20261121-070512-ab12"
    measured(stack, run_id)
    for name in ("weekly", "golden", "n" * 80):
        rackrate("baseline", "set", name, run_id, "--stack", stack.name)
    shown = rackrate("baseline", "list", "--stack", stack.name)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    listed = json.loads(rackrate("baseline", "list", "--stack", stack.name, "--json").stdout)
    assert [each["name"] for each in listed["baselines"]] == ["golden", "n" * 80, "weekly"]
    assert {each["run_id"] for each in listed["baselines"]} == {run_id}


def test_no_baselines_are_said_to_be_none(stack: DeployedStack, rackrate: Rackrate) -> None:
    done = rackrate("baseline", "list", "--stack", stack.name)
    assert done.exit_code == 0
    assert "has no baselines" in done.stdout


def test_a_removed_baseline_leaves_its_run(stack: DeployedStack, rackrate: Rackrate) -> None:
    measured(stack, "r1")
    rackrate("baseline", "set", "golden", "r1", "--stack", stack.name)
    assert rackrate("baseline", "remove", "golden", "--stack", stack.name).exit_code == 0
    assert rackrate("show", "r1", "--stack", stack.name).exit_code == 0
    again = rackrate("baseline", "remove", "golden", "--stack", stack.name)
    assert again.exit_code == 2
    assert 'no baseline "golden"' in again.stderr


def test_what_cannot_be_a_baseline_is_refused_and_nothing_is_kept(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    measured(stack, "r1")
    stack.record("going", status="running", trials_measured=3)
    stack.record("dry", status="dry_run", trials_measured=0)
    stack.record("refused", status="invalid")
    stack.record("unreported", status="aborted", trials_measured=3)
    for name, run_id, said in (
        ("r1", "r1", "is a run's id"),
        ("latest", "r1", "cannot be a baseline's name"),
        ("a b", "r1", "cannot be a baseline's name"),
        ("x" * 81, "r1", "cannot be a baseline's name"),
        ("golden", "nope", 'no run "nope"'),
        ("golden", "going", "still going"),
        ("golden", "dry", "is a dry run"),
        ("golden", "refused", "no measured trials"),
        ("golden", "unreported", "left no results.json"),
    ):
        done = rackrate("baseline", "set", name, run_id, "--stack", stack.name)
        assert done.exit_code == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    listed = json.loads(rackrate("baseline", "list", "--stack", stack.name, "--json").stdout)
    assert listed["baselines"] == []


def test_latest_passes_over_dry_runs_and_refused_plans(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    measured(stack, "r1", started_at="2026-11-21T08:00:00Z")
    stack.record("dry", status="dry_run", started_at="2026-11-21T09:00:00Z")
    stack.record("bad", status="invalid", started_at="2026-11-21T10:00:00Z")
    done = rackrate("baseline", "set", "golden", "latest", "--stack", stack.name)
    assert "Baseline golden is run r1." in done.stdout
