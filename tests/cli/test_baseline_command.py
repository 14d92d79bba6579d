"""`rackrate baseline` stores names for runs in the table, in the form the functions read."""

from __future__ import annotations

import json

import pytest
from rackrate_cli.reading.baselines import Baseline
from rackrate_cli.reading.stack import Stack

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
        "run_ids": ["r1"],
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
    assert answer["baseline"]["run_ids"] == ["r2"]
    assert answer["was"]["run_ids"] == ["r1"]


def set_main(stack: DeployedStack, rackrate: Rackrate, *runs: str) -> None:
    """Measure runs, and make them the baseline main."""
    for run_id in runs:
        measured(stack, run_id)
    rackrate("baseline", "set", "main", *runs, "--stack", stack.name)


def runs_of(stack: DeployedStack, name: str) -> list[str]:
    """The runs of a baseline as the functions read them."""
    item = table(stack.table).get_item(Key={"pk": f"baseline#{name}", "sk": "baseline"})["Item"]
    runs = item["run_ids"]
    assert isinstance(runs, list)
    return [str(run_id) for run_id in runs]


def test_a_baseline_takes_several_runs_each_once(stack: DeployedStack, rackrate: Rackrate) -> None:
    for run_id in ("r1", "r2", "r3"):
        measured(stack, run_id)
    done = rackrate("baseline", "set", "main", "r1", "r2", "r1", "--stack", stack.name)
    assert "Baseline main is the runs r1 and r2." in done.stdout
    assert runs_of(stack, "main") == ["r1", "r2"]
    done = rackrate("baseline", "add", "main", "r2", "r3", "--stack", stack.name)
    assert "Baseline main has 3 runs, with r3." in done.stdout
    assert runs_of(stack, "main") == ["r1", "r2", "r3"]


def test_a_run_is_added_to_a_baseline_that_is_made_for_it_and_only_once(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    measured(stack, "r1")
    for said in ("has 1 run, with r1.", "has 1 run; it had them already."):
        done = rackrate("baseline", "add", "main", "r1", "--stack", stack.name)
        assert done.exit_code == 0, done.output
        assert said in done.stdout
    assert runs_of(stack, "main") == ["r1"]


def test_a_baseline_with_too_few_runs_for_a_gate_says_how_many_it_needs(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for number in range(1, 5):
        measured(stack, f"r{number}")
        done = rackrate("baseline", "add", "main", f"r{number}", "--stack", stack.name)
        said = " ".join(done.stdout.split())
        needs = f"a gate needs 4 baseline runs and the baseline main has {number}; add more with"
        assert (needs in said) == (number < 4)


def test_a_baseline_keeps_the_newest_runs(stack: DeployedStack, rackrate: Rackrate) -> None:
    runs = [f"r{number:02}" for number in range(22)]
    for run_id in runs:
        measured(stack, run_id)
    rackrate("baseline", "set", "main", *runs[:20], "--stack", stack.name)
    done = rackrate("baseline", "add", "main", *runs[20:], "--stack", stack.name)
    assert "has 20 runs, with r20 and r21, and no longer r00 and r01." in " ".join(
        done.stdout.split()
    )
    assert runs_of(stack, "main") == runs[2:]
    refused = rackrate("baseline", "set", "main", *runs, "--stack", stack.name)
    assert refused.exit_code == 2
    assert "at most 20 runs" in refused.stderr


def test_a_run_is_taken_out_of_a_baseline_and_the_last_one_is_not(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    set_main(stack, rackrate, "r1", "r2")
    done = rackrate("baseline", "remove", "main", "r1", "--stack", stack.name)
    assert "Baseline main is run r2." in done.stdout
    for run_id, said in (("r1", "is not in the baseline"), ("r2", "would have no run left")):
        refused = rackrate("baseline", "remove", "main", run_id, "--stack", stack.name)
        assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert runs_of(stack, "main") == ["r2"]
    nothing = rackrate("baseline", "remove", "other", "r1", "--stack", stack.name)
    assert 'no baseline "other"' in nothing.stderr


def test_show_lists_a_baselines_runs_and_those_that_are_gone(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    set_main(stack, rackrate, "r1", "r2")
    table(stack.table).delete_item(Key={"pk": "run#r1", "sk": "run"})
    done = rackrate("baseline", "show", "main", "--stack", stack.name)
    assert "succeeded" in done.stdout
    assert "The run r1 is gone" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    told = json.loads(rackrate("baseline", "show", "main", "--stack", stack.name, "--json").stdout)
    assert (told["gone"], [run["id"] for run in told["runs"]]) == (["r1"], ["r2"])
    assert rackrate("baseline", "show", "other", "--stack", stack.name).exit_code == 2


def test_a_baseline_of_an_earlier_version_can_be_added_to(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for run_id in ("r1", "r2"):
        measured(stack, run_id)
    item = {"pk": "baseline#old", "sk": "baseline", "name": "old", "run_id": "r1", "set_at": ""}
    table(stack.table).put_item(Item={**item, "gsi1pk": "baselines", "gsi1sk": "old"})
    done = rackrate("baseline", "add", "old", "r2", "--stack", stack.name)
    assert done.exit_code == 0, done.output
    assert runs_of(stack, "old") == ["r1", "r2"]


def test_runs_that_two_jobs_add_at_the_same_time_are_both_kept(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("r1", "r2", "r3"):
        measured(stack, run_id)
    rackrate("baseline", "set", "main", "r1", "--stack", stack.name)
    read = Stack.baseline
    others = iter(("r2",))

    def read_before_another_job_writes(self: Stack, name: str) -> Baseline | None:
        found = read(self, name)
        if found is not None and (other := next(others, None)) is not None:
            changed = Baseline(name, (*found.run_ids, other), found.set_at)
            assert self.set_baseline(changed, found)
        return found

    monkeypatch.setattr(Stack, "baseline", read_before_another_job_writes)
    done = rackrate("baseline", "add", "main", "r3", "--stack", stack.name)
    assert done.exit_code == 0, done.output
    assert runs_of(stack, "main") == ["r1", "r2", "r3"]


def test_list_is_by_name_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    run_id = "run-20261121-070512-ab12"
    measured(stack, run_id)
    for name in ("weekly", "golden", "n" * 80):
        rackrate("baseline", "set", name, run_id, "--stack", stack.name)
    shown = rackrate("baseline", "list", "--stack", stack.name)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    listed = json.loads(rackrate("baseline", "list", "--stack", stack.name, "--json").stdout)
    assert [each["name"] for each in listed["baselines"]] == ["golden", "n" * 80, "weekly"]
    assert [each["run_ids"] for each in listed["baselines"]] == [[run_id]] * 3


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
