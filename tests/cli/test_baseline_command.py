"""`rackrate baseline` stores names for runs in the table, in the form the functions read."""

from __future__ import annotations

import json
import math

import pytest
from rackrate_cli.reading.baselines import Baseline
from rackrate_cli.reading.stack import Stack

from rackrate_contract.gates import half_width, smallest_regression

from .conftest import DeployedStack, Rackrate, results, table


def test_a_baseline_is_an_item_that_the_functions_find(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1")
    done = rackrate("baseline", "set", "golden", "latest")
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
    stack.measure("r1")
    stack.measure("r2")
    rackrate("baseline", "set", "golden", "r1")
    document = rackrate.json("baseline", "set", "golden", "r2")
    assert document["baseline"]["run_ids"] == ["r2"]
    assert document["was"]["run_ids"] == ["r1"]


def set_main(stack: DeployedStack, rackrate: Rackrate, *runs: str) -> None:
    """Measure runs, and make them the baseline main."""
    for run_id in runs:
        stack.measure(run_id)
    rackrate("baseline", "set", "main", *runs)


def runs_of(stack: DeployedStack, name: str) -> list[str]:
    """The runs of a baseline as the functions read them."""
    item = table(stack.table).get_item(Key={"pk": f"baseline#{name}", "sk": "baseline"})["Item"]
    return list(item["run_ids"])


def test_a_baseline_takes_several_runs_each_once(stack: DeployedStack, rackrate: Rackrate) -> None:
    for run_id in ("r1", "r2", "r3"):
        stack.measure(run_id)
    done = rackrate("baseline", "set", "main", "r1", "r2", "r1")
    assert "Baseline main is the runs r1 and r2." in done.stdout
    assert runs_of(stack, "main") == ["r1", "r2"]
    done = rackrate("baseline", "add", "main", "r2", "r3")
    assert "Baseline main has 3 runs, with r3." in done.stdout
    assert runs_of(stack, "main") == ["r1", "r2", "r3"]


def test_a_run_is_added_to_a_baseline_that_is_made_for_it_and_only_once(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1")
    for message in ("has 1 run, with r1.", "has 1 run; it had them already."):
        assert message in rackrate("baseline", "add", "main", "r1").stdout
    assert runs_of(stack, "main") == ["r1"]


def test_a_baseline_with_too_few_runs_for_a_gate_says_how_many_it_needs(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for number in range(1, 5):
        stack.measure(f"r{number}")
        done = rackrate("baseline", "add", "main", f"r{number}")
        needs = f"a gate needs 4 baseline runs and the baseline main has {number}; add more with"
        assert (needs in " ".join(done.stdout.split())) == (number < 4)


def test_a_baseline_keeps_the_newest_runs(stack: DeployedStack, rackrate: Rackrate) -> None:
    runs = [f"r{number:02}" for number in range(22)]
    for run_id in runs:
        stack.measure(run_id)
    rackrate("baseline", "set", "main", *runs[:20])
    done = rackrate("baseline", "add", "main", *runs[20:])
    assert "has 20 runs, with r20 and r21, and no longer r00 and r01." in " ".join(
        done.stdout.split()
    )
    assert runs_of(stack, "main") == runs[2:]
    assert "at most 20 runs" in rackrate.refused("baseline", "set", "main", *runs)


def test_a_run_is_taken_out_of_a_baseline_and_the_last_one_is_not(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    set_main(stack, rackrate, "r1", "r2")
    done = rackrate("baseline", "remove", "main", "r1")
    assert "Baseline main is run r2." in done.stdout
    for run_id, message in (("r1", "is not in the baseline"), ("r2", "would have no run left")):
        assert message in rackrate.refused("baseline", "remove", "main", run_id)
    assert runs_of(stack, "main") == ["r2"]
    assert 'no baseline "other"' in rackrate.refused("baseline", "remove", "other", "r1")


def test_show_lists_a_baselines_runs_and_those_that_are_missing(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    set_main(stack, rackrate, "r1", "r2")
    table(stack.table).delete_item(Key={"pk": "run#r1", "sk": "run"})
    shown = rackrate("baseline", "show", "main").stdout
    assert "succeeded" in shown
    assert "The run r1 is gone" in shown
    assert max(map(len, shown.splitlines())) <= 80
    document = rackrate.json("baseline", "show", "main")
    assert document["gone"] == ["r1"]
    assert [run["id"] for run in document["runs"]] == ["r2"]
    rackrate("baseline", "show", "other", code=2)


def test_a_baseline_of_an_earlier_version_can_be_added_to(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for run_id in ("r1", "r2"):
        stack.measure(run_id)
    item = {"pk": "baseline#old", "sk": "baseline", "name": "old", "run_id": "r1", "set_at": ""}
    table(stack.table).put_item(Item={**item, "gsi1pk": "baselines", "gsi1sk": "old"})
    rackrate("baseline", "add", "old", "r2")
    assert runs_of(stack, "old") == ["r1", "r2"]


def test_runs_that_two_jobs_add_at_the_same_time_are_both_kept(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_main(stack, rackrate, "r1")
    stack.measure("r2")
    stack.measure("r3")
    read = Stack.baseline
    others = iter(("r2",))

    def read_before_another_job_writes(self: Stack, name: str) -> Baseline | None:
        before = read(self, name)
        if before is not None and (other := next(others, None)) is not None:
            changed = Baseline(name, (*before.run_ids, other), before.set_at)
            assert self.set_baseline(changed, before)
        return before

    monkeypatch.setattr(Stack, "baseline", read_before_another_job_writes)
    rackrate("baseline", "add", "main", "r3")
    assert runs_of(stack, "main") == ["r1", "r2", "r3"]


def test_list_is_by_name_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    run_id = "run-20261121-070512-ab12"
    stack.measure(run_id)
    for name in ("weekly", "golden", "n" * 80):
        rackrate("baseline", "set", name, run_id)
    shown = rackrate("baseline", "list")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    listed = rackrate.json("baseline", "list")
    assert [each["name"] for each in listed["baselines"]] == ["golden", "n" * 80, "weekly"]
    assert [each["run_ids"] for each in listed["baselines"]] == [[run_id]] * 3


def test_a_list_of_no_baselines_says_so(stack: DeployedStack, rackrate: Rackrate) -> None:
    assert "has no baselines" in rackrate("baseline", "list").stdout


def test_a_removed_baseline_leaves_its_run(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.measure("r1")
    rackrate("baseline", "set", "golden", "r1")
    rackrate("baseline", "remove", "golden")
    rackrate("show", "r1")
    assert 'no baseline "golden"' in rackrate.refused("baseline", "remove", "golden")


def test_what_cannot_be_a_baseline_is_refused_and_nothing_is_stored(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1")
    stack.record("going", status="running", trials_measured=3)
    stack.record("dry", status="dry_run", trials_measured=0)
    stack.record("refused", status="invalid")
    stack.record("unreported", status="aborted", trials_measured=3)
    for name, run_id, message in (
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
        assert message in rackrate.refused("baseline", "set", name, run_id)
    assert rackrate.json("baseline", "list")["baselines"] == []


def test_latest_passes_over_dry_runs_and_refused_plans(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1", started_at="2026-11-21T08:00:00Z")
    stack.record("dry", status="dry_run", started_at="2026-11-21T09:00:00Z")
    stack.record("bad", status="invalid", started_at="2026-11-21T10:00:00Z")
    done = rackrate("baseline", "set", "golden", "latest")
    assert "Baseline golden is run r1." in done.stdout


def measure(stack: DeployedStack, run_id: str, day: int, level: float) -> None:
    """Measure a run on a day, whose throughput is multiplied by a level."""
    stack.measure(run_id)
    document = json.loads(results(run_id))
    document["run"]["started_at"] = f"2026-11-{day:02}T07:05:12Z"
    for verdict in document["verdicts"]:
        verdict["better"] = "lower" if verdict["test"] == "rtt" else "higher"
        verdict["arm_mean"] = level * verdict["arm_median"]
        verdict["baseline_mean"] = verdict["baseline_median"]
    stack.put(run_id, "results.json", json.dumps(document).encode())


def test_a_baseline_says_when_it_was_measured_and_what_a_gate_against_it_shows(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    levels = [1.0, 1.04, 0.97, 1.02]
    for number, level in enumerate(levels):
        measure(stack, f"r{number}", 1 + number, level)
    rackrate("baseline", "set", "main", "r0", "r1", "r2", "r3")
    shown = rackrate("baseline", "show", "main").stdout
    assert "Measured from 2026-11-01 07:05 to 2026-11-04 07:06 (UTC)." in shown
    assert "within" not in shown
    assert "cluster group" in shown and "treatment" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    gate = rackrate.json("baseline", "show", "main")["gate"]
    ratios = {(e["test"], e["arm"]): e["ratio"] for e in gate["smallest_regressions"]}
    expected = smallest_regression(
        half_width([math.log(each) for each in levels], 4), 0.05, "higher"
    )
    assert ratios["tcp-1", "treatment"] == pytest.approx(expected)
    assert ratios["tcp-1", "baseline"] == pytest.approx(1 / 1.05), "its runs do not differ"
    assert ratios["rtt", "baseline"] == pytest.approx(1.05), "there more is worse"
    assert "Where it exceeds 10 %, the margin, a gate can hardly fail" in " ".join(shown.split())


def test_a_baseline_that_was_measured_in_a_row_says_what_that_lacks(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    for number in range(4):
        measure(stack, f"r{number}", 1, 1.0)
    said = " ".join(rackrate("baseline", "set", "main", "r0", "r1", "r2", "r3").stdout.split())
    assert "Warning: the 4 runs were measured within 1 min 24 s, so" in said
    assert "different days, at the same hour" in said
