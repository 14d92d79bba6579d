"""The forms in which verdicts and plans are stored, of earlier versions too."""

from __future__ import annotations

import pytest

from rackrate.plan.model import Plan
from rackrate_contract.verdicts import Baseline, Verdict
from tests.unit import builders
from tests.unit.report.samples import regression


@pytest.mark.parametrize(
    ("written", "baseline"),
    [
        ("baseline", Baseline("baseline")),
        ("treatment (run-1)", Baseline("treatment (run-1)")),
        ("run r1", Baseline("r1", ("r1",))),
        ("main: r1, r2", Baseline("main", ("r1", "r2"))),
        ("4 runs: r1, r2, r3, r4", Baseline("4 runs", ("r1", "r2", "r3", "r4"))),
    ],
)
def test_a_baseline_is_read_as_it_was_written(written, baseline):
    assert Baseline.read(written) == baseline
    assert baseline.written() == written
    verdict = regression(baseline=baseline)
    assert verdict.to_json()["baseline"] == written
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_verdict_of_an_earlier_version_is_read():
    stored = regression().to_json()
    del stored["more_runs"]
    assert Verdict.from_json(stored) == regression()


@pytest.mark.parametrize(
    ("written", "names"),
    [(None, ()), ("run-1", ("run-1",)), (["run-1", "run-2"], ("run-1", "run-2"))],
)
def test_the_earlier_runs_of_a_stored_plan_are_read_as_they_were_written(written, names):
    plan = builders.plan(compare_with=names)
    assert plan.to_json()["compare_with"] == written
    assert Plan.from_json(plan.to_json()) == plan
