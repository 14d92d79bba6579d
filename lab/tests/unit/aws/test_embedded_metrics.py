"""The lab reads the functions' metrics from log lines, as CloudWatch does."""

from __future__ import annotations

import pytest

from handlers import context
from lab.aws.embedded_metrics import extract
from rackrate_contract.verdicts import Verdict

# The other fields of a verdict are not in the metrics.
VERDICT = Verdict.model_construct(
    test="tcp-1",
    metric="throughput",
    arm="treatment",
    ratio=1.9,
    ci_simultaneous=(1.8, 2.0),
    verdict="better",
)


@pytest.fixture
def written(monkeypatch, capsys):
    """The metrics in the lines that functions of the stack `house` print."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "rackrate")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "house")
    context._metrics.cache_clear()
    yield lambda: [d for line in capsys.readouterr().out.splitlines() for d in extract(line)]
    context._metrics.cache_clear()


def test_a_verdict_becomes_metrics_of_its_test_its_metric_and_its_arm(written):
    unsure = VERDICT.model_copy(update={"test": "tcp-8", "verdict": "inconclusive"})
    context.put_verdicts([VERDICT, unsure])
    metrics = written()
    values = {(dict(each.dimensions)["test"], each.name): each.values for each in metrics}
    assert values == {
        ("tcp-1", "Verdict"): (1.0,),
        ("tcp-1", "VerdictRatio"): (1.9,),
        ("tcp-1", "VerdictRatioLow"): (1.8,),
        ("tcp-1", "VerdictRatioHigh"): (2.0,),
        ("tcp-8", "VerdictRatio"): (1.9,),
        ("tcp-8", "VerdictRatioLow"): (1.8,),
        ("tcp-8", "VerdictRatioHigh"): (2.0,),
    }
    for each in metrics:
        assert (each.namespace, each.unit) == ("rackrate", "None")
        assert set(dict(each.dimensions)) == {"service", "test", "metric", "arm"}
        assert dict(each.dimensions)["service"] == "house"


def test_what_a_run_counts_has_the_stack_as_its_only_dimension(written):
    context.put_verdicts([VERDICT])
    context.put_metrics(RunsSucceeded=1)
    *_, last = written()
    assert (last.name, last.dimensions) == ("RunsSucceeded", (("service", "house"),))
