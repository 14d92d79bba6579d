"""The comparison of stored runs: refused requests, written objects, the execution's output."""

from __future__ import annotations

import json

import pytest

from rackrate.errors import InvalidComparison
from rackrate.executions.objects import LINK_SECONDS
from rackrate.measure.trials import RawValues
from rackrate.plan.fields import Blocks
from rackrate.plan.items import build_schedule
from rackrate.stages.run import compare as stage
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.compare import compare
from rackrate.verdict.model import Analysis
from rackrate_contract.verdicts import Difference
from tests.unit.given import Given
from tests.unit.report.samples import analysis
from tests.unit.results.test_comparison import recorded
from tests.unit.verdict.test_analysis import RTT, VALUES

ID, ARN = "compared-1", "arn:aws:states:us-east-1:123456789012:execution:rackrate:compared-1"
ASKED = {"compare": {"run": "run-2", "with": "run-1"}}


def keep(
    store, run_id, *, status="succeeded", schema="rackrate.result.v1", tests=(RTT,), **options
):
    """Store a run in the state after its end."""
    run = recorded(run_id, tests=tests, direction="forward", **options)
    evidence = run.evidence
    planned = evidence.planned_run.model_copy(update={"run_id": run_id})
    store.runs.start(run_id, status, "2026-11-21T08:00:00Z", lab_scale=0.05)
    store.runs.put(run_id, "plan.json", planned)
    store.runs.put_items(run_id, "schedule.json", build_schedule(planned.plan, planned.arms))
    store.runs.put(run_id, "analysis.json", analysis(marks=()))
    if schema:
        store.objects.put_json(store.runs.key(run_id, "results.json"), {"schema": schema})
    raw = {key.id: RawValues(samples={"rtt": (1e-4,)}) for key in evidence.measured}
    samples_key = store.trials.put_raw_values(run_id, "samples/0001.json.gz", raw)
    for trial in evidence.trials.values():
        store.trials.put(run_id, trial.model_copy(update={"samples_key": samples_key}))


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Skip drawing, which takes seconds. test_comparison.py and test_permissions.py do not."""
    monkeypatch.setattr(stage, "render_page", lambda document, *_: document.conclusion)


@pytest.fixture
def two(store):
    for run_id in ("run-1", "run-2"):
        keep(store, run_id)
    return store


def do(store, asked=ASKED):
    return compare(asked, Given(store=store), comparison_id=ID, execution_arn=ARN)


def named(store, name, *run_ids):
    """Set a named baseline as the command line does."""
    item = {key: {"S": text} for key, text in (("pk", f"baseline#{name}"), ("sk", "baseline"))}
    item["run_ids"] = {"L": [{"S": run_id} for run_id in run_ids]}
    store.table.client.put_item(TableName="results", Item=item)


def refusal(store, run="run-2", other="run-1"):
    with pytest.raises(InvalidComparison) as caught:
        do(store, {"compare": {"run": run, "with": other}})
    said = str(caught.value)
    assert "\n" not in said, "one sentence"
    assert "; " in said, "and a remedy"
    return said


def test_a_comparison_is_written_beside_the_runs_and_recorded_as_none(two, s3):
    done = do(two)
    assert done.comparison_key == f"comparisons/{ID}/comparison.json"
    found = s3.list_objects_v2(Bucket="results", Prefix="comparisons/")["Contents"]
    assert {each["Key"] for each in found} == {
        f"comparisons/{ID}/comparison.json",
        f"comparisons/{ID}/report.html",
    }
    document = json.load(s3.get_object(Bucket="results", Key=done.comparison_key)["Body"])
    assert document["schema"] == "rackrate.comparison.v1"
    short, scale = done.conclusion.split(" Network ")
    assert document["conclusion"].startswith(short)
    assert scale == "scaled by 0.05: figures are not EC2's."
    assert two.runs.find(ID) is None
    assert two.runs.running() == []


def test_the_output_is_short_and_says_how_long_its_link_holds(two):
    done = do(two)
    assert done.differences == ()
    assert done.verdicts[0].startswith("rtt 0 %")
    assert done.verdicts[0].endswith(
        "inconclusive, cluster group against cluster group (run-1): 3 more earlier runs are needed"
    )
    assert len(json.dumps(done.to_json())) < 5000
    assert "at most 12 hours, often less" in done.report_valid
    assert f"s3://results/comparisons/{ID}/report.html" in done.report_valid


def test_the_link_is_signed_for_the_regions_own_host_and_for_keys_of_kms(two):
    done = do(two)
    address, _, query = done.report.partition("?")
    assert address == f"https://results.s3.us-east-1.amazonaws.com/comparisons/{ID}/report.html"
    assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in query
    assert f"X-Amz-Expires={LINK_SECONDS}" in query


def test_a_baseline_is_compared_by_its_name(two, s3):
    item = {"pk": "baseline#good", "sk": "baseline", "name": "good", "run_id": "run-1"}
    two.table.client.put_item(TableName="results", Item={k: {"S": v} for k, v in item.items()})
    done = do(two, {"compare": {"run": "run-2", "with": "good"}})
    document = json.load(s3.get_object(Bucket="results", Key=done.comparison_key)["Body"])
    assert document["comparison"]["with"] == "run-1"
    assert document["comparison"]["baseline"] == "good"


def test_a_run_that_is_not_there_is_refused(two):
    assert refusal(two, run="nowhere").startswith(
        "compare.run: there is no run and no baseline 'nowhere'; name"
    )
    assert refusal(two, other="nowhere").startswith("compare.with: there is no run and no baseline")


def test_a_baseline_whose_run_is_gone_is_refused(two):
    named(two, "old", "run-1", "forgotten")
    said = refusal(two, other="old")
    assert "compare.with: the run 'forgotten' of the baseline 'old' is gone" in said


def test_a_run_is_compared_with_all_runs_of_a_baseline(two, s3):
    others = ("run-1", "run-3", "run-4", "run-5")
    for run_id in others[1:]:
        keep(two, run_id)
    named(two, "main", *others)
    done = do(two, {"compare": {"run": "run-2", "with": "main"}})
    assert done.verdicts[0].endswith(
        "no meaningful difference, cluster group against cluster group (main)"
    )
    document = json.load(s3.get_object(Bucket="results", Key=done.comparison_key)["Body"])
    assert document["comparison"]["with_runs"] == list(others)
    assert (document["comparison"]["with"], document["comparison"]["baseline"]) == ("main", "main")


def test_runs_may_be_listed(two, s3):
    keep(two, "run-3")
    done = do(two, {"compare": {"run": "run-2", "with": ["run-1", "run-3"]}})
    assert done.verdicts[0].endswith("2 more earlier runs are needed")
    document = json.load(s3.get_object(Bucket="results", Key=done.comparison_key)["Body"])
    assert document["comparison"]["with"] == "2 runs"
    assert document["comparison"]["with_runs"] == ["run-1", "run-3"]


def test_each_of_several_runs_is_checked(two):
    named(two, "main", "run-1", "run-2")
    named(two, "one", "run-1")
    for others, said in (
        (["run-1", "nowhere"], "compare.with[1]: there is no run and no baseline 'nowhere'"),
        (["run-1", "run-2"], "compare.with[1]: is the run 'run-2' itself"),
        (["run-1", "one"], "compare.with[1]: the run 'run-1' is named twice"),
        ("main", "compare.with: is the run 'run-2' itself"),
    ):
        assert refusal(two, other=others).startswith(said)
    assert refusal(two, run="main").startswith("compare.run: the baseline 'main' stands for 2 runs")


def test_a_run_that_is_still_going_is_refused(two):
    two.runs.update("run-2", status="running")
    assert refusal(two) == (
        "compare.run: the run 'run-2' is still going; wait for its end, or name another run"
    )


def test_a_run_is_not_compared_with_itself(two):
    assert "compare.with: is the run 'run-2' itself" in refusal(two, other="run-2")


@pytest.mark.parametrize("status", ["aborted", "invalid", "dry_run", "timed_out"])
def test_a_run_that_left_no_results_is_refused(store, status):
    keep(store, "run-2", status=status, schema=None)
    assert f"the run 'run-2' ended '{status}' and left no results" in refusal(store)


def test_results_of_another_version_are_refused(two):
    two.objects.put_json("runs/run-1/results.json", {"schema": "rackrate.result.v2"})
    assert refusal(two).startswith(
        "compare.with: the results of the run 'run-1' are of the schema 'rackrate.result.v2',"
        " not 'rackrate.result.v1'; "
    )


def test_a_run_whose_analysis_another_version_wrote_is_compared(two):
    written = analysis(marks=()).to_json() | {"more": 1}
    del written["regression_differences"]
    two.objects.put_json("runs/run-1/analysis.json", written)
    assert do(two).conclusion


def test_a_run_without_a_measured_trial_is_refused(two, store):
    keep(store, "run-3", values={key: [None] * 6 for key in VALUES}, status="failed")
    assert "compare.run: the run 'run-3' has no measured trials" in refusal(two, run="run-3")


def test_runs_with_nothing_in_common_are_refused_and_nothing_is_written(two, s3):
    keep(two, "run-3", tests=(RTT.model_copy(update={"count": 5}),))
    assert "have nothing in common" in refusal(two, run="run-3")
    assert "Contents" not in s3.list_objects_v2(Bucket="results", Prefix="comparisons/")


def test_a_run_that_did_not_go_well_is_compared_and_said_to_be_one(two, s3):
    two.runs.update("run-1", status="failed")
    done = do(two)
    document = json.load(s3.get_object(Bucket="results", Key=done.comparison_key)["Body"])
    assert "The run run-1 ended failed." in document["warnings"]


def analyzed_again(store, **plan):
    """The analysis of the second run with a changed plan."""
    stored = store.runs.plan("run-2")
    changed = stored.plan.model_copy(update=plan)
    store.runs.put("run-2", "plan.json", stored.model_copy(update={"plan": changed}))
    analyze("run-2", Given(store=store), after_failure=False)
    return store.runs.read("run-2", "analysis.json", Analysis)


def test_a_run_whose_plan_names_an_earlier_one_says_what_differed_since(two):
    found = analyzed_again(two, compare_with=("run-1",), blocks=Blocks.of(7))
    (difference,) = found.regression_differences
    assert difference == Difference(what="blocks", run="7", other="6")
    said = two.runs.find("run-2").conclusion
    assert said.startswith("Since run-1, in the cluster placement group latency is")
    assert "What differed since run-1: blocks (7 instead of 6)." in said


def test_a_run_whose_plan_names_four_earlier_ones_is_judged_against_all_that_are_there(two):
    runs = ("run-1", "run-3", "run-4", "run-5")
    for run_id in runs[1:]:
        keep(two, run_id)
    found = analyzed_again(two, compare_with=(*runs, "lost"))
    assert {v.baseline.runs for v in found.regressions} == {runs}
    assert {v.verdict for v in found.regressions} == {"no meaningful difference"}
    assert found.warnings == ("compare_with: the results of the run lost are gone",)
    assert (
        "Since the 4 runs, in the cluster placement group latency is alike"
        in two.runs.find("run-2").conclusion
    )


def test_a_run_that_names_no_earlier_one_says_nothing_of_differences(two):
    assert analyzed_again(two).regression_differences is None
    assert "differed" not in two.runs.find("run-2").conclusion
