"""Plans through the real command and the real plan function: what is refused, what is decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab.running import SHORT, Lab

DRY = {**SHORT, "blocks": 6, "dry_run": True}


def blocks(lab: Lab, run_id: str) -> list[Any]:
    """What a run's schedule does in each block."""
    return [
        (item["pairs"], [test["name"] for test in item["tests"]])
        for item in lab.document(run_id, "schedule.json")
        if item["kind"] == "block"
    ]


def test_the_same_plan_and_seed_give_the_same_schedule_and_another_seed_another(lab: Lab) -> None:
    done = lab.rackrate(DRY, "dry-1")
    assert done.returncode == 0, done.stderr
    assert "Dry run dry-1: 24 trials in 6 blocks" in done.stdout
    lab.start("dry-2", DRY)
    lab.start("dry-3", {**DRY, "seed": 8})
    lab.start("dry-4", {name: value for name, value in DRY.items() if name != "seed"})
    for run_id in ("dry-2", "dry-3", "dry-4"):
        assert lab.ended(run_id)["status"] == "SUCCEEDED"
    assert lab.document("dry-1", "schedule.json") == lab.document("dry-2", "schedule.json")
    assert blocks(lab, "dry-1") != blocks(lab, "dry-3")
    # The seed is stored, so that a plan without one can be repeated too.
    assert lab.record("dry-1")["seed"] == 7
    chosen = int(lab.record("dry-4")["seed"])
    assert lab.document("dry-4", "plan.json")["plan"]["seed"] == chosen
    lab.start("dry-5", {**DRY, "seed": chosen})
    assert lab.ended("dry-5")["status"] == "SUCCEEDED"
    assert lab.document("dry-4", "schedule.json") == lab.document("dry-5", "schedule.json")


def test_a_dry_run_starts_nothing_and_says_so(lab: Lab) -> None:
    lab.start("dry-6", DRY)
    ended = lab.ended("dry-6")
    assert ended["status"] == "SUCCEEDED"
    output = json.loads(ended["output"])
    assert (output["estimate"]["trials"], output["estimate"]["usd"] > 0) == (24, True)
    assert output["estimate"]["seconds"] > 30
    assert output["estimate"]["most_bytes_per_node"] > 1e8
    assert lab.record("dry-6")["status"] == "dry_run"
    assert lab.objects("dry-6") == {"plan.json", "schedule.json"}
    assert lab.left_in_cluster("dry-6") == []


def test_all_mistakes_of_a_plan_are_reported_at_once_with_their_path_and_nothing_is_started(
    lab: Lab,
) -> None:
    plan = {
        "arms": ["treatment", "elsewhere"],
        "tests": [
            {"name": "tcp-1", "seconds": 0},
            {"name": "rtt", "count": "many"},
            {"name": "mine", "tool": "no-such-tool"},
            "tcp-9",
            "tcp-1",
        ],
        "blocks": -1,
        "colour": "blue",
        "threshold": "5 %",
    }
    before = lab.left_in_cluster("refused")
    done = lab.rackrate(plan, "refused")
    assert done.returncode == 2
    paths = {line.strip().split(":")[0] for line in done.stderr.splitlines() if ";" in line}
    assert paths >= {
        *("arms[1]", "tests[0].seconds", "tests[1].count", "tests[2].tool", "tests[3]"),
        *("tests[4]", "blocks", "colour", "threshold"),
    }
    assert "nothing was started" in done.stderr
    assert before == lab.left_in_cluster("refused") == []
    assert lab.record("refused")["status"] == "invalid"
    assert lab.objects("refused") == set()
    execution = lab.execution("refused")
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidPlan")
    assert "blocks: must be at least 1, not -1; write a larger number" in execution["cause"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "object"),
        ('{"blocks": }', "JSON"),
        (json.dumps({"tests": ["x" * 300_000]}), "larger than 256 KiB"),
    ],
    ids=["not an object", "not JSON", "too large"],
)
def test_what_is_no_plan_is_refused_with_exit_code_2(lab: Lab, text: str, message: str) -> None:
    path = lab.directory / "no-plan.json"
    path.write_text(text, encoding="utf-8")
    done = lab.rackrate(path, "no-plan")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_arm_without_two_ready_nodes_is_refused(lab: Lab) -> None:
    with lab.halted_kubelet(lab.nodes(placement_group=True)[0]):
        done = lab.rackrate(DRY, "one-node")
    assert done.returncode == 2
    assert "arms[0]: the arm 'treatment' has 1 Ready node; a pair needs 2" in done.stderr
