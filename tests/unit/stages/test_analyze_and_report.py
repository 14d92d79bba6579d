"""The stages `analyze` and `report`: from stored trials to verdicts, results, tables and a page."""

from __future__ import annotations

import csv
import io
import json

import pytest
from arro3.io import read_parquet
from jsonschema import Draft202012Validator

from rackrate.errors import TrialsLost
from rackrate.results.build import RunFailure
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.finish import finish
from rackrate.stages.run.report import report
from rackrate.times import later
from tests import ROOT
from tests.unit.report.campaigns import launch
from tests.unit.stages.runs import ARN, RUN, json_of

PUBLISHED = json.loads((ROOT / "docs" / "results.schema.json").read_text())


@pytest.fixture
def whole_run(deploy, measure, store):
    measure(*deploy())
    woken = launch(began_at=store.runs.find(RUN).started_at)
    store.runs.update(RUN, launches=[woken.to_json()])


def test_a_whole_run_ends_in_verdicts_results_and_a_page(whole_run, store, s3, resources):
    assert analyze(RUN, resources, after_failure=False).lost == 0
    report(RUN, resources, failure=None)
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    results = json_of(store, "results.json")
    assert results["schema"] == "rackrate.result.v1"
    Draft202012Validator(PUBLISHED).validate(results)
    assert results["run"]["status"] == "succeeded" == store.runs.find(RUN).status
    assert results["trials"] == {
        "planned": 36,
        "measured": 36,
        "failed": 0,
        "failures": [],
        "causes": [],
    }
    assert [v["test"] for v in results["verdicts"]] == ["tcp-1", "tcp-8", "rtt"]
    # The tools printed the same in both arms, so there is no difference.
    assert {v["verdict"] for v in results["verdicts"]} == {"no meaningful difference"}
    ceilings = {v["test"]: v["ceiling"] for v in results["verdicts"]}
    assert (ceilings["tcp-1"]["arm"], ceilings["tcp-1"]["baseline"]) == (10e9, 5e9)
    assert ceilings["tcp-8"]["name"] == "instance peak"
    assert ceilings["rtt"] is None
    assert results["arms"][1]["nodes"] == ["node-c", "node-d"]
    assert [arm["ena_express"] for arm in results["arms"]] == [False, False]
    assert results["run"]["lab_scale"] is None
    assert [each["last_seconds"] for each in results["launches"]] == [48.0]

    body = s3.get_object(Bucket="results", Key=f"runs/{RUN}/trials.csv")["Body"].read()
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert len(rows) == 36
    for row in rows:
        quantity = "rtt_seconds" if row["test"] == "rtt" else "throughput_bits_per_second"
        assert float(row[quantity]) > 0
    day = results["run"]["started_at"][:10]
    for table, expected in (("trials", 36), ("verdicts", 3)):
        key = f"{table}/day={day}/{RUN}.parquet"
        body = s3.get_object(Bucket="results", Key=key)["Body"].read()
        assert len(read_parquet(io.BytesIO(body)).read_all()) == expected

    before = store.trials.verdicts(RUN)
    analyze(RUN, resources, after_failure=False)
    assert store.trials.verdicts(RUN) == before, "an old run can be analysed again"


def test_a_loss_within_tolerance_degrades_the_run(deploy, measure, cluster, store, resources):
    items = deploy()
    last = items[0].tests[-1].name
    for item in items:
        spoil = item.kind == "makeup" or item.block == 1
        cluster.on_client = (
            (lambda pod: cluster.finish(pod, {last: 1})) if spoil else cluster.succeed
        )
        measure(item)
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    assert store.runs.find(RUN).status == "degraded"
    results = json_of(store, "results.json")
    assert (results["trials"]["measured"], results["trials"]["failed"]) == (34, 2)
    assert all(failure["attempt"] == 3 for failure in results["trials"]["failures"])
    five = next(v for v in results["verdicts"] if v["test"] == last)
    assert (five["blocks"], five["verdict"]) == (5, "inconclusive")


def test_too_many_losses_fail_the_run_with_its_verdicts_stored(deploy, measure, store, resources):
    measure(*deploy()[:2])
    with pytest.raises(TrialsLost, match="24 of 36 trials were lost: 24 trials: never ran"):
        analyze(RUN, resources, after_failure=False)
    assert len(store.trials.verdicts(RUN)) == 3
    failure = RunFailure("TrialsLost", "24 of 36")
    report(RUN, resources, failure=failure)
    results = json_of(store, "results.json")
    assert (results["run"]["status"], results["run"]["error"]) == ("failed", "TrialsLost")


def test_a_run_with_a_node_of_an_unknown_type_is_measured_and_warns_of_it(
    deploy, measure, cluster, store, resources
):
    cluster.nodes[0]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "c99.mega"
    measure(*deploy())
    analyze(RUN, resources, after_failure=False)
    analysis = json_of(store, "analysis.json")
    assert len(analysis["verdicts"]) == 3
    assert any("c99.mega" in warning for warning in analysis["warnings"])


def test_a_run_without_a_single_trial_is_still_reported(plan, store, resources):
    plan()
    analyze(RUN, resources, after_failure=True)
    report(RUN, resources, failure=RunFailure("NodesUnavailable", "x"))
    results = json_of(store, "results.json")
    assert results["trials"]["failed"] == 36
    assert {v["verdict"] for v in results["verdicts"]} == {"inconclusive"}


class TestOtherRuns:
    """Runs that used the nodes while this run measured, although it held a lease."""

    @pytest.fixture
    def warnings(self, whole_run, store, resources):
        """Return a function that analyzes the run beside another run with these attributes."""
        times = [(trial.started_at, trial.finished_at) for trial in store.trials.of(RUN).values()]
        start, end = min(first for first, _ in times), max(last for _, last in times)

        def analyzed(status="running", started=-60, **attributes):
            store.table.delete("run#other", "run")
            store.runs.start("other", status, later(start, started), **attributes)
            analyze(RUN, resources, after_failure=False)
            return json_of(store, "analysis.json")["warnings"]

        self.start, self.end = start, end
        return analyzed

    def test_a_run_that_held_the_same_nodes_is_named_also_of_an_older_rackrate(self, warnings):
        (warning,) = warnings(stack_arms=["baseline"], leased_at=later(self.start, -1))
        assert warning.startswith("The run other used the nodes of baseline too, for ")
        (warning,) = warnings()
        assert warning.startswith("The run other may have used the nodes of treatment and baseline")

    def test_a_run_that_did_not_have_the_nodes_meanwhile_is_not_named(self, warnings):
        assert warnings(stack_arms=["treatment", "baseline"]) == [], "it only waited"
        assert warnings(stack_arms=["baseline"], leased_at=later(self.end, 1)) == [], "it was later"
        assert warnings("succeeded", finished_at=later(self.start, -1)) == [], "it had ended before"
        assert warnings(started=-3 * 86_400) == [], "nobody recorded its end days ago"
        for status in ("dry_run", "invalid"):
            assert warnings(status) == [], "it never had nodes"
