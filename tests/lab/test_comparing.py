"""Two runs that are over, compared by an execution of the deployed machine; and what an execution
tells whoever opens it in the console."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.lab.running import SHORT, Lab
from tests.lab.waiting import eventually

RUN, OTHER, COMPARISON = "comparable-2", "comparable-1", "compared"
NAME = "last-good"
#: Too few for a verdict, so the run looks after two blocks and measures on.
BLOCKS = {"least": 2, "most": 3}


@pytest.fixture(scope="module")
def runs(lab: Lab) -> dict[str, Any]:
    """The outputs of two runs by id. They go on together: nothing here rests on their figures."""
    plans = {OTHER: SHORT, RUN: {**SHORT, "blocks": BLOCKS, "seed": 8}}
    for run_id, plan in plans.items():
        lab.start(run_id, plan)
    ended = {run_id: lab.ended(run_id, seconds=120) for run_id in plans}
    assert {run["status"] for run in ended.values()} == {"SUCCEEDED"}
    return {run_id: json.loads(run["output"]) for run_id, run in ended.items()}


@pytest.fixture(scope="module")
def compared(lab: Lab, runs: dict[str, Any]) -> Any:
    """The output of their comparison, the other one named as a baseline."""
    item = {"pk": f"baseline#{NAME}", "sk": "baseline", "name": NAME, "run_id": OTHER}
    lab.aws("dynamodb").put_item(
        TableName=lab.outputs["TableName"], Item={key: {"S": text} for key, text in item.items()}
    )
    lab.start(COMPARISON, {"compare": {"run": RUN, "with": NAME}})
    ended = lab.ended(COMPARISON)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    return json.loads(ended["output"])


def opened(url: str) -> bytes:
    """What anybody gets who has a link and nothing else."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/html")
        return bytes(answer.read())


def kept(lab: Lab, key: str) -> bytes:
    found = lab.aws("s3").get_object(Bucket=lab.outputs["BucketName"], Key=key)
    return bytes(found["Body"].read())


def test_the_output_of_a_run_is_what_a_person_asks_it(lab: Lab, runs: dict[str, Any]) -> None:
    output = runs[RUN]
    assert set(output) == {
        *("status", "conclusion", "verdicts", "report", "report_valid", "dashboard", "results"),
    }
    assert output["status"] == "succeeded"
    assert output["conclusion"].startswith("treatment against baseline, on these nodes: tcp-1")
    assert "scaled by 0.1 on purpose" in output["conclusion"]
    assert [line.partition(":")[0] for line in output["verdicts"]] == [
        "treatment against baseline"
    ] * 2
    assert output["dashboard"] == lab.outputs["DashboardUrl"]
    assert output["results"] == f"s3://{lab.outputs['BucketName']}/runs/{RUN}/"


def test_the_link_to_the_page_opens_without_credentials_and_only_with_its_signature(
    lab: Lab, runs: dict[str, Any], compared: Any
) -> None:
    for link, key in (
        (runs[RUN]["report"], f"runs/{RUN}/report.html"),
        (compared["report"], f"comparisons/{COMPARISON}/report.html"),
    ):
        assert opened(link) == kept(lab, key)
        with pytest.raises(urllib.error.HTTPError) as refused:
            opened(link.partition("?")[0])
        assert refused.value.code == 403


def test_a_run_measures_on_after_a_look_that_settled_nothing(
    lab: Lab, runs: dict[str, Any]
) -> None:
    """The page of the first ten minutes (test_docs.py) has a run that stops early."""
    found = lab.document(RUN, "results.json")
    assert (found["stopped"]["after_blocks"], found["stopped"]["why"]) == (3, "most")
    assert (found["trials"]["planned"], found["trials"]["measured"]) == (3 * 2 * 2, 3 * 2 * 2)
    assert {each["blocks"] for each in found["verdicts"]} == {3}
    assert {"blocks_1.json", "blocks_2.json"} < lab.objects(RUN)
    assert lab.document(OTHER, "results.json")["stopped"] is None


def test_a_comparison_says_what_differed_and_then_what_it_did(lab: Lab, compared: Any) -> None:
    assert set(compared) == {
        *("conclusion", "differences", "verdicts", "report", "report_valid", "comparison_key"),
    }
    blocks = json.dumps(BLOCKS)
    assert compared["differences"] == [{"what": "blocks", "run": blocks, "with": "2"}]
    assert compared["conclusion"].startswith(
        f"What differed between {RUN} and {OTHER}: blocks ({blocks} instead of 2). treatment"
        f" against treatment ({OTHER})"
    )
    assert compared["conclusion"].endswith("scaled by 0.1 on purpose.")
    assert len(compared["verdicts"]) == 4, "two tests, two arms"
    document = json.loads(kept(lab, compared["comparison_key"]))
    assert document["schema"] == "rackrate.comparison.v1"
    assert document["comparison"]["baseline"] == NAME
    assert document["run"]["lab_scale"] == 0.1
    assert document["trials"]["measured"] == 5 * 2 * 2, "blocks, arms, tests"
    for verdict in document["verdicts"]:
        assert verdict["baseline"] == f"{verdict['arm']} ({OTHER})"
        low, high = verdict["ci95"]
        assert 0 < low <= verdict["ratio"] <= high


def test_a_comparison_is_no_run(lab: Lab, compared: Any) -> None:
    assert lab.record(COMPARISON) == {}
    assert lab.objects(COMPARISON) == set()
    assert lab.left_in_cluster(COMPARISON) == []


def cleaned_up(lab: Lab, name: str) -> bool:
    """Has the rule on failed executions called the clean-up for one, and has that ended?"""
    functions = lab.aws("lambda").get_paginator("list_functions").paginate()
    (teardown,) = (
        function
        for page in functions
        for function in page["Functions"]
        if "TeardownFunction" in function["FunctionName"]
    )
    pages = (
        lab.aws("logs")
        .get_paginator("filter_log_events")
        .paginate(logGroupName=teardown["LoggingConfig"]["LogGroup"])
    )
    lines = [event["message"] for page in pages for event in page["events"]]
    return any(f'"comparison":"{name}"' in line.replace(": ", ":") for line in lines)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"run": "nowhere", "with": OTHER}, "compare.run: there is no run and no baseline"),
        ({"run": RUN, "with": RUN}, f"compare.with: is the run '{RUN}' itself"),
        ({"run": RUN}, "compare.with: is missing"),
    ],
)
def test_a_refused_comparison_says_why_in_a_sentence_and_is_no_failed_run(
    lab: Lab, runs: dict[str, Any], asked: dict[str, str], said: str
) -> None:
    name = f"refused-{'-'.join(asked.values())}"
    lab.start(name, {"compare": asked})
    ended = lab.ended(name)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidComparison")
    assert ended["cause"].startswith(said)
    assert "\n" not in ended["cause"]
    # The clean-up has nothing to do, and writes no run down.
    eventually(lambda: cleaned_up(lab, name), seconds=30)
    assert lab.record(name) == {}
