"""`rackrate compare` starts a comparison of two runs and prints differences before verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import (
    DeployedStack,
    Rackrate,
    Start,
    arm,
    await_abort,
    failing,
    going_on,
    machine,
    results,
    verdict,
)

#: Runs that make a gate of four together with `r0`.
MORE = ("m1", "m2", "m3")
PAGE = '<!doctype html><a href="../../runs/r1/raw/1.txt">raw</a>'
DIFFERENCES = [
    {"what": "instance type", "run": "c5.large", "with": "c5n.9xlarge"},
    {"what": "kernel of baseline", "run": "6.12.1", "with": "6.1.9"},
]


def document(**comparison: Any) -> dict[str, Any]:
    """A comparison.json as the stack writes it."""
    names = ("treatment", "treatment (r0)")
    arms = [arm(name, "cluster") for name in names]
    compared = verdict(baseline="treatment (r0)", verdict="worse", ratio=0.5)
    of_run = json.loads(results("x", arms=arms, verdicts=[compared]))
    return {
        **of_run,
        "run": of_run["run"] | {"status": "compared"},
        "schema": "rackrate.comparison.v1",
        "conclusion": "The instance type differed; tcp-1 throughput is worse, 0.50 times.",
        "comparison": {
            "run": "r1",
            "with": "r0",
            "with_runs": ["r0"],
            "baseline": None,
            "differences": DIFFERENCES,
            **comparison,
        },
    }


def writing(stack: DeployedStack, name: str, content: str) -> dict[str, Any]:
    """A state that writes a file of its comparison."""
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:putObject",
        "Parameters": {
            "Bucket": stack.bucket,
            "Key.$": f"States.Format('comparisons/{{}}/{name}', $$.Execution.Name)",
            "Body": content,
        },
        "ResultPath": None,
    }


@pytest.fixture
def comparing(stack: DeployedStack) -> DeployedStack:
    """A stack with runs, `r1` the newest, that writes a comparison of `r1` and `r0`."""
    starts = {run_id: f"2026-11-20T0{n}:00:00Z" for n, run_id in enumerate(["r0", *MORE])}
    for run_id, started_at in {**starts, "r1": "2026-11-21T07:00:00Z"}.items():
        stack.measure(run_id, started_at=started_at)
    write(stack, document())
    return stack


def write(stack: DeployedStack, content: Any) -> None:
    """Let the stack's state machine write this comparison."""
    stack.define_comparison(
        machine(
            ("Page", writing(stack, "report.html", PAGE)),
            ("Document", writing(stack, "comparison.json", json.dumps(content))),
        )
    )


def test_what_differed_is_printed_before_what_it_did_within_80_columns(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    done = rackrate("compare", "latest", "r0")
    [execution] = comparing.comparisons()
    assert comparing.input_of(execution) == {"compare": {"run": "r1", "with": "r0"}}
    shown = done.stdout
    assert "c5n.9xlarge" in shown
    assert shown.index("c5n.9xlarge") < shown.index("987 Mbit/s")
    assert "1 min 24 s" not in shown, "the time of one run is not that of both"
    assert "treatment (r0)" in shown
    page = Path("out", execution["name"], "report.html")
    assert f"Results: {page}" in " ".join(shown.split("\n"))
    lines = [line for line in shown.splitlines() if not line.startswith("Results: ")]
    assert max(map(len, lines)) <= 80
    assert "comparing" in done.stderr


def test_the_copy_of_the_page_links_to_the_copies_of_raw_outputs(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    document = rackrate.json("compare", "r1", "r0")
    directory = Path(document["directory"])
    assert directory.parent == Path("out")
    assert b'href="../r1/raw/1.txt"' in (directory / "report.html").read_bytes()
    assert json.loads((directory / "comparison.json").read_bytes()) == document["comparison"]
    assert document["comparison"]["comparison"]["differences"] == DIFFERENCES


def test_a_baseline_is_asked_for_by_its_name(comparing: DeployedStack, rackrate: Rackrate) -> None:
    write(comparing, document(baseline="golden"))
    rackrate("baseline", "set", "golden", "r0")
    done = rackrate("compare", "r1", "golden")
    [execution] = comparing.comparisons()
    assert comparing.input_of(execution) == {"compare": {"run": "r1", "with": "golden"}}
    assert "Run r1 against golden (r0)" in done.stdout


def test_runs_that_differ_in_nothing_are_named_so(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    write(comparing, document(differences=[]))
    done = rackrate("compare", "r1", "r0")
    assert "Nothing that rackrate knows of differed" in done.stdout


def test_a_baseline_of_several_runs_is_compared_with_as_one(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    write(comparing, document(**{"with": "main", "with_runs": ["r0", *MORE], "baseline": "main"}))
    rackrate("baseline", "set", "main", "r0", *MORE)
    done = rackrate("compare", "r1", "main", "--require", "tcp-1 worse")
    [execution] = comparing.comparisons()
    assert comparing.input_of(execution) == {"compare": {"run": "r1", "with": "main"}}
    assert "Run r1 against the 4 runs of main" in done.stdout
    assert "The others" in done.stdout


def test_runs_are_listed_for_the_stack(comparing: DeployedStack, rackrate: Rackrate) -> None:
    write(comparing, document(**{"with": "2 runs", "with_runs": ["r0", "m1"]}))
    done = rackrate("compare", "r1", "r0", "m1")
    [execution] = comparing.comparisons()
    assert comparing.input_of(execution) == {"compare": {"run": "r1", "with": ["r0", "m1"]}}
    assert "Run r1 against the 2 runs" in done.stdout


def test_a_gate_with_fewer_than_four_runs_is_refused_before_anything_starts(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate("baseline", "set", "golden", "r0")
    for others, message in (
        (["golden"], "the baseline golden has 1; add more with `rackrate baseline add golden RUN"),
        (["r0", "m1", "m2"], "a gate needs 4 baseline runs and this baseline has 3; add more"),
    ):
        assert message in rackrate.refused("compare", "r1", *others, "--require", "tcp-1 not worse")
    assert comparing.comparisons() == []


def test_a_requirement_that_is_not_met_is_exit_code_1(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    base = ("compare", "r1", "r0", *MORE)
    unmet = rackrate(*base, "--require", "tcp-1 not worse", code=1)
    assert '"tcp-1 not worse" is not met' in unmet.stderr
    rackrate(*base, "--require", "tcp-1 worse")


def test_what_the_stack_refuses_is_its_own_sentence_and_exit_code_2(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    cause = "compare: the runs 'r1' and 'r0' have nothing in common; compare runs of the same plan"
    comparing.define_comparison(machine(("Refuse", failing("InvalidComparison", cause))))
    done = rackrate("compare", "r1", "r0", code=2)
    assert f"cannot be compared: {cause}." in done.stderr
    assert list(Path("out").iterdir()) == []


def test_a_comparison_that_breaks_is_exit_code_1(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    broken = {"Type": "Fail", "Error": "Sandbox.Timedout", "Cause": "out of time"}
    comparing.define_comparison(machine(("Break", broken)))
    done = rackrate("compare", "r1", "r0", code=1)
    assert "Sandbox.Timedout: out of time" in done.stderr


def test_what_cannot_be_compared_starts_nothing(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    earlier = "2026-11-19T07:00:00Z"
    comparing.record("going", status="running", trials_measured=3, started_at=earlier)
    comparing.record("empty", status="failed", trials_measured=0, started_at=earlier)
    for arguments, message in (
        (("r1", "nope"), 'no run and no baseline "nope"'),
        (("nope", "r0"), 'no run and no baseline "nope"'),
        (("r1", "going"), "still going"),
        (("r1", "empty"), "no measured trials"),
        (("r1", "r1"), "Both are the run r1"),
        (("latest", "r1"), "Both are the run r1"),
        (("r1", "r0", "r1"), "Both are the run r1"),
        (("r1", "r0", "m1", "r0"), "The run r0 is named twice"),
        (("r1", "r0", "--require", "tcp-1"), "has no verdict"),
        (("r1", "r0", "--require", "tcp-1 better than before"), "leave"),
    ):
        assert message in rackrate.refused("compare", *arguments)
    assert comparing.comparisons() == []


def test_a_comparison_of_another_schema_version_is_refused(
    comparing: DeployedStack, rackrate: Rackrate
) -> None:
    write(comparing, {**document(), "schema": "rackrate.results.comparison.v9"})
    done = rackrate("compare", "r1", "r0", code=2)
    assert '"rackrate.results.comparison.v9"' in done.stderr
    assert list(Path("out").iterdir()) == []


def test_ctrl_c_stops_the_comparison(
    comparing: DeployedStack, start: Start, tmp_path: Path
) -> None:
    comparing.define_comparison(machine(("Wait", going_on())))
    process = start("compare", "r1", "r0", "--out", tmp_path)
    process.until("comparing")
    process.send()
    process.end(130)
    await_abort(comparing.comparisons)
