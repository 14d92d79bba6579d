"""What the handlers share: made once in each function's process, and only when it is used."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from rackrate import conclusion
from rackrate.cluster import Cluster
from rackrate.settings import Settings
from rackrate.store import Store

logger = Logger()


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


def count(unit: MetricUnit = MetricUnit.Count, **values: float) -> None:
    """Writes metrics into the log, where CloudWatch finds them (embedded metric format)."""
    for name, value in values.items():
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
