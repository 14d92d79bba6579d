"""Runs that are over, compared by an execution of the deployed machine; a run that is a gate; and
what an execution tells whoever opens it in the console."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from lab.stack import REPOSITORY
from tests.lab.running import SHORT, TOOLS, Lab
from tests.lab.waiting import eventually

RUN, COMPARISON = "comparable-5", "compared"
#: The runs of the baseline.
OTHERS = ("comparable-1", "comparable-2", "comparable-3", "comparable-4")
OTHER = OTHERS[0]
NAME, ALONE = "last-good", "last-good-alone"
WORDS = {"better", "worse", "no meaningful difference", "inconclusive"}
GATE = json.loads((REPOSITORY / "docs" / "plans" / "gate.json").read_text("utf-8"))
#: Too few for a verdict at first, so the run looks after four blocks and measures on.
BLOCKS = {"least": 4, "most": 6}


@pytest.fixture(scope="module")
def runs(lab: Lab) -> dict[str, Any]:
    """The outputs of the runs by id. Those of the baseline start together and take turns. The last
    run is the gate's plan in short, against them.
    """
    lab.start(OTHER, SHORT)
    eventually(lambda: "leased_at" in lab.record(OTHER), seconds=30)
    for run_id in OTHERS[1:]:
        lab.start(run_id, SHORT)
    eventually(lambda: "waiting_since" in lab.record(OTHERS[1]), seconds=30)
    shown = lab.command("rackrate", "show", OTHERS[1])
    assert "waiting for comparable-" in shown.stdout
    assert "which holds the nodes of" in shown.stdout
    ended = {run_id: lab.ended(run_id, seconds=240) for run_id in OTHERS}
    for name, run_ids in ((NAME, OTHERS), (ALONE, OTHERS[:1])):
        rackrate(lab, "baseline", "set", name, *run_ids)
    assert GATE["compare_with"] == "main", "the plan of a gate names a baseline"
    lab.start(RUN, {**GATE, **SHORT, "blocks": BLOCKS, "seed": 8, "compare_with": NAME})
    ended[RUN] = lab.ended(RUN, seconds=120)
    assert {run["status"] for run in ended.values()} == {"SUCCEEDED"}
    return {run_id: json.loads(run["output"]) for run_id, run in ended.items()}


def comparing(lab: Lab, name: str, asked: dict[str, str]) -> dict[str, Any]:
    """The description of a comparison's execution, once it is over."""
    states = lab.aws("stepfunctions")
    arn = states.start_execution(
        stateMachineArn=lab.outputs["ComparisonStateMachineArn"],
        name=name,
        input=json.dumps({"compare": asked}),
    )["executionArn"]

    def ended() -> dict[str, Any]:
        described: dict[str, Any] = states.describe_execution(executionArn=arn)
        return described if described["status"] != "RUNNING" else {}

    return eventually(ended, seconds=90, poll_seconds=0.5)


@pytest.fixture(scope="module")
def compared(lab: Lab, runs: dict[str, Any]) -> Any:
    """The output of a comparison with one run, which is named as a baseline."""
    ended = comparing(lab, COMPARISON, {"run": RUN, "with": ALONE})
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    return json.loads(ended["output"])


def rackrate(lab: Lab, *arguments: str, codes: tuple[int, ...] = (0,)) -> tuple[int, Any]:
    """The exit code of a command of rackrate with `--json`, and what it answers."""
    done = lab.command(str(TOOLS / "rackrate"), *arguments, "--json", check=False, seconds=120)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


def opened(url: str) -> bytes:
    """What anybody gets who has a link and nothing else."""
    with urllib.request.urlopen(url, timeout=10) as response:
        assert response.headers["Content-Type"].startswith("text/html")
        return bytes(response.read())


def test_runs_on_the_same_nodes_take_turns(lab: Lab, runs: dict[str, Any]) -> None:
    spans = []
    for run_id in OTHERS:
        trials = [trial for trial in lab.items(run_id, "trial#") if "finished_at" in trial]
        assert len(trials) == 4
        spans.append((min(t["started_at"] for t in trials), max(t["finished_at"] for t in trials)))
        assert lab.document(run_id, "analysis.json")["warnings"] == []
        # The estimate counts the wait, so the run is not taken for one that hangs.
        record = lab.record(run_id)
        assert record["expected_seconds"] > record["seconds"] / 2
    spans.sort()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_the_output_of_a_run_is_what_a_person_asks_it(lab: Lab, runs: dict[str, Any]) -> None:
    output = runs[RUN]
    assert set(output) == {
        *("status", "conclusion", "verdicts", "report", "report_valid", "dashboard", "results"),
    }
    assert output["status"] == "succeeded"
    assert output["conclusion"].startswith(f"Since the 4 runs of {NAME}")
    assert " In the cluster placement group " in output["conclusion"]
    assert "scaled by 0.1" in output["conclusion"]
    assert all("cluster group against no group" in line for line in output["verdicts"][:2])
    assert output["dashboard"] == lab.outputs["DashboardUrl"]
    assert output["results"] == f"s3://{lab.outputs['BucketName']}/runs/{RUN}/"


def test_the_link_to_the_page_opens_without_credentials_and_only_with_its_signature(
    lab: Lab, runs: dict[str, Any], compared: Any
) -> None:
    for link, key in (
        (runs[RUN]["report"], f"runs/{RUN}/report.html"),
        (compared["report"], f"comparisons/{COMPARISON}/report.html"),
    ):
        assert opened(link) == lab.read(key)
        with pytest.raises(urllib.error.HTTPError) as refused:
            opened(link.partition("?")[0])
        assert refused.value.code == 403


def test_a_run_measures_on_after_a_look_that_settled_nothing(
    lab: Lab, runs: dict[str, Any]
) -> None:
    """The page of the first ten minutes (test_docs.py) has a run that stops early."""
    results = lab.document(RUN, "results.json")
    assert results["stopped"]["after_blocks"] == 6
    assert (results["trials"]["planned"], results["trials"]["measured"]) == (6 * 2 * 2, 6 * 2 * 2)
    assert {each["blocks"] for each in results["verdicts"]} == {6}
    assert {"blocks_1.json", "blocks_2.json"} < lab.objects(RUN)
    assert lab.document(OTHER, "results.json")["stopped"] is None


def test_a_comparison_says_what_differed_and_then_what_it_did(lab: Lab, compared: Any) -> None:
    assert set(compared) == {
        *("conclusion", "differences", "verdicts", "report", "report_valid", "comparison_key"),
    }
    blocks = json.dumps(BLOCKS)
    assert compared["differences"] == [{"what": "blocks", "run": blocks, "with": "1"}]
    assert compared["conclusion"].startswith(
        f"What differed between {RUN} and {OTHER}: blocks ({blocks} instead of 1). In the"
        " cluster placement group "
    )
    assert "scaled by 0.1" in compared["conclusion"]
    assert len(compared["verdicts"]) == 4, "two tests, two arms"
    document = json.loads(lab.read(compared["comparison_key"]))
    assert document["schema"] == "rackrate.comparison.v1"
    assert document["comparison"]["baseline"] == ALONE
    assert document["comparison"]["with_runs"] == [OTHER]
    assert document["run"]["lab_scale"] == 0.1
    assert document["trials"]["measured"] == 7 * 2 * 2, "blocks, arms, tests"
    for verdict in document["verdicts"]:
        assert verdict["baseline"] == f"{verdict['arm']} ({OTHER})"
        assert verdict["ratio"] > 0
        assert (verdict["verdict"], verdict["more_runs"]) == ("inconclusive", 3)


def test_a_run_is_compared_with_the_spread_of_the_runs_of_a_baseline(
    lab: Lab, runs: dict[str, Any], tmp_path: Path
) -> None:
    plan = lab.document(RUN, "plan.json")
    assert plan["plan"]["compare_with"] == list(OTHERS)
    assert plan["compare_with_baseline"] == NAME
    results = lab.document(RUN, "results.json")
    assert f"Since the 4 runs of {NAME}" in results["conclusion"]
    assert {d["what"] for d in results["regression_differences"]} == {"blocks"}
    _, output = rackrate(lab, "compare", RUN, NAME, "--out", str(tmp_path))
    comparison = output["comparison"]
    assert comparison["comparison"]["with_runs"] == list(OTHERS)
    for verdicts, baseline in (
        (results["regressions"], lambda _: f"{NAME}: {', '.join(OTHERS)}"),
        (comparison["verdicts"], lambda arm: f"{arm} ({NAME})"),
    ):
        assert len(verdicts) == 4, "two tests, two arms"
        for verdict in verdicts:
            assert verdict["baseline"] == baseline(verdict["arm"])
            assert verdict["verdict"] in WORDS
            assert verdict["more_runs"] is None
            low, high = verdict["ci95"]
            assert 0 < low <= verdict["ratio"] <= high


def test_a_gate_is_decided_by_four_runs_and_refused_with_one(
    lab: Lab, runs: dict[str, Any]
) -> None:
    command = ("show", RUN, "--require", "tcp-1 not worse than before")
    code, output = rackrate(lab, *command, codes=(0, 1))
    of_tcp = [v for v in lab.document(RUN, "results.json")["regressions"] if v["test"] == "tcp-1"]
    assert code == int(any(verdict["verdict"] == "worse" for verdict in of_tcp))
    assert [each["met"] for each in output["requirements"]] == [code == 0]
    too_few = ("compare", RUN, ALONE, "--require", "tcp-1 not worse")
    _, refused = rackrate(lab, *too_few, codes=(2,))
    assert f"rackrate baseline add {ALONE}" in refused["error"]
    assert refused["error"].count(". ") == 0


def test_a_comparison_is_no_run(lab: Lab, compared: Any) -> None:
    assert lab.record(COMPARISON) == {}
    assert lab.objects(COMPARISON) == set()
    assert lab.left_in_cluster(COMPARISON) == []


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ({"run": "nowhere", "with": OTHER}, "compare.run: there is no run and no baseline"),
        ({"run": RUN, "with": RUN}, f"compare.with: is the run '{RUN}' itself"),
        ({"run": RUN}, "compare.with: is missing"),
    ],
)
def test_a_refused_comparison_says_why_in_a_sentence_and_is_no_failed_run(
    lab: Lab, runs: dict[str, Any], refused: dict[str, str], sentence: str
) -> None:
    name = f"refused-{'-'.join(refused.values())}"
    ended = comparing(lab, name, refused)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidComparison")
    assert ended["cause"].startswith(sentence)
    assert "\n" not in ended["cause"]
    assert lab.record(name) == {}
