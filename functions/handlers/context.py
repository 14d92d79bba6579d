"""What the handlers share: made once in each function's process, and only when it is used."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from rackrate import conclusion
from rackrate.cluster import Cluster
from rackrate.settings import Settings
from rackrate.store import Store

logger = Logger()

NO_DIMENSIONS: Mapping[str, str] = {}
#: The most that CloudWatch takes as a value (PutMetricData in its API reference).
_LARGEST = 2.0**360
#: The words of verdicts as numbers, so that a change for the worse can set off an alarm. That
#: nothing can be concluded is none.
_WORDS = {"better": 1, "no meaningful difference": 0, "worse": -1}


@functools.cache
def settings() -> Settings:
    """The stack's settings."""
    return Settings.from_environment()


@functools.cache
def store() -> Store:
    """The stack's table and bucket."""
    return Store(settings().table_name, settings().bucket_name)


@functools.cache
def cluster() -> Cluster:
    """The stack's cluster."""
    return Cluster(settings().cluster_name)


@functools.cache
def _metrics() -> Metrics:
    """The metrics of namespace and service (the stack) that the template sets."""
    return Metrics()


def count(
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


def count_ends(ended: Iterable[dict[str, Any]]) -> None:
    """Counts runs whose end was written just now; `ended` is what `record_end` says of each."""
    for end in ended:
        if not end["written"]:
            continue
        if end["status"] in conclusion.GOOD:
            count(RunsSucceeded=1)
        elif end["status"] in conclusion.BAD:
            count(RunsFailed=1)
        count(MetricUnit.Seconds, RunSeconds=end["seconds"])


def count_verdicts(verdicts: Iterable[Mapping[str, Any]]) -> None:
    """Writes each verdict as metrics: the ratio, the interval that decides, and the word."""
    for verdict in verdicts:
        of = {name: verdict[name] for name in ("test", "metric", "arm")}
        low, high = conclusion.interval_of(verdict) or (None, None)
        word = _WORDS.get(verdict["verdict"])
        count(
            MetricUnit.NoUnit,
            of,
            Verdict=word,
            VerdictRatio=verdict["ratio"],
            VerdictRatioLow=low,
            VerdictRatioHigh=high,
        )
