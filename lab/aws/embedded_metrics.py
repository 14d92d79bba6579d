"""Metrics in log lines: CloudWatch Logs' embedded metric format.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends

from lab.aws.account import ACCOUNT_ID, REGION

LOG = logging.getLogger(__name__)

# The format's limits; a line that exceeds one yields no metrics.
_MAX_DIMENSIONS = 30
_MAX_METRICS = 100
_MAX_VALUES = 100


@dataclass(frozen=True)
class Datum:
    """One metric of one set of dimensions; `seconds` is its time since the epoch."""

    namespace: str
    name: str
    unit: str
    values: tuple[float, ...]
    dimensions: tuple[tuple[str, str], ...]
    seconds: float


def extract(line: str) -> Iterator[Datum]:
    """The metrics that a log line declares; none for a line of another form."""
    if '"CloudWatchMetrics"' not in line:
        return
    try:
        document = json.loads(line)
        metadata = document["_aws"]
        seconds = float(metadata["Timestamp"]) / 1000
        for directive in metadata["CloudWatchMetrics"]:
            yield from _directive(document, directive, seconds)
    except (ValueError, KeyError, TypeError) as error:
        # CloudWatch Logs keeps such a line and extracts nothing.
        LOG.warning("embedded metrics not extracted: %s: %s", type(error).__name__, error)


def _directive(
    document: Mapping[str, Any], directive: Mapping[str, Any], seconds: float
) -> Iterator[Datum]:
    if len(directive["Metrics"]) > _MAX_METRICS:
        raise ValueError(f"more than {_MAX_METRICS} metrics in a directive")
    for names in directive.get("Dimensions") or [[]]:
        if len(names) > _MAX_DIMENSIONS:
            raise ValueError(f"more than {_MAX_DIMENSIONS} dimensions")
        dimensions = tuple((name, str(document[name])) for name in names)
        for metric in directive["Metrics"]:
            value = document[metric["Name"]]
            values = value if isinstance(value, list) else [value]
            if len(values) > _MAX_VALUES:
                raise ValueError(f"more than {_MAX_VALUES} values of {metric['Name']}")
            yield Datum(
                directive["Namespace"],
                metric["Name"],
                metric.get("Unit", "None"),
                tuple(float(item) for item in values),
                dimensions,
                seconds,
            )


def publish(lines: Iterable[str]) -> None:
    """Put the metrics of log lines where GetMetricData and alarms find them."""
    for line in lines:
        for datum in extract(line):
            moment = datetime.datetime.fromtimestamp(datum.seconds, tz=datetime.UTC)
            cloudwatch_backends[ACCOUNT_ID][REGION].put_metric_data(
                datum.namespace,
                [
                    {
                        "MetricName": datum.name,
                        "Dimensions": [{"Name": k, "Value": v} for k, v in datum.dimensions],
                        "Timestamp": moment.replace(tzinfo=None),
                        "Unit": datum.unit,
                        "Values": list(datum.values),
                    }
                ],
            )
