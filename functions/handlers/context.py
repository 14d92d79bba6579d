"""What the handlers share: made once in each function's process, and only when it is used."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from rackrate.resources import Resources
from rackrate.stages.finish import Ended
from rackrate.verdict.model import Verdict

logger = Logger()

NO_DIMENSIONS: Mapping[str, str] = {}
#: The most that CloudWatch takes as a value (PutMetricData in its API reference).
_LARGEST = 2.0**360
#: The words of verdicts as numbers, so that a change for the worse can set off an alarm. That
#: nothing can be concluded is none.
_WORDS = {"better": 1, "no meaningful difference": 0, "worse": -1}
#: How a run may end for which the benchmark answers. That a plan was refused, only checked, or
#: stopped by a person is neither.
_GOOD = frozenset({"succeeded", "degraded"})
_BAD = frozenset({"failed", "timed_out"})


#: The stack's; each part is made when a handler first uses it.
resources = Resources()


@functools.cache
def _metrics() -> Metrics:
    """The metrics of namespace and service (the stack) that the template sets."""
    return Metrics()


def put_metrics(
    unit: MetricUnit = MetricUnit.Count,
    dimensions: Mapping[str, str] = NO_DIMENSIONS,
    **values: float | None,
) -> None:
    """Writes metrics into the log, where CloudWatch finds them (embedded metric format).

    Args:
        unit: of all the values.
        dimensions: beyond the service, which is the stack.
        values: by the metrics' names; what is not known or beyond CloudWatch has none.
    """
    known = {n: v for n, v in values.items() if v is not None and abs(v) <= _LARGEST}
    if not known:
        return
    for name, text in dimensions.items():
        _metrics().add_dimension(name, text)
    for name, value in known.items():
        _metrics().add_metric(name, unit, value)
    _metrics().flush_metrics()


def put_ends(ended: Iterable[Ended]) -> None:
    """Counts the runs whose end was written just now."""
    for end in ended:
        if end.seconds is None:
            continue
        if end.status in _GOOD:
            put_metrics(RunsSucceeded=1)
        elif end.status in _BAD:
            put_metrics(RunsFailed=1)
        put_metrics(MetricUnit.Seconds, RunSeconds=end.seconds)


def put_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Writes each verdict as metrics: the ratio, the interval that decides, and the word."""
    for verdict in verdicts:
        low, high = verdict.deciding_interval or (None, None)
        put_metrics(
            MetricUnit.NoUnit,
            {"test": verdict.test, "metric": verdict.metric, "arm": verdict.arm},
            Verdict=_WORDS.get(verdict.verdict),
            VerdictRatio=verdict.ratio,
            VerdictRatioLow=low,
            VerdictRatioHigh=high,
        )
