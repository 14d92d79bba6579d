"""Metrics in a function's log reach CloudWatch."""

from __future__ import annotations

import datetime
import json

from lab.tests.aws.region import Lab, eventually

METRICS = """
import json, time

def handler(event, context):
    print(json.dumps({
        "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [
            {"Namespace": "rackrate", "Dimensions": [["service"]],
             "Metrics": [{"Name": "RunsSucceeded", "Unit": "Count"},
                         {"Name": "RunSeconds", "Unit": "Seconds"}]}]},
        "service": event["stack"], "RunsSucceeded": [1.0], "RunSeconds": 61.5}))
    print(json.dumps({"_aws": {"Timestamp": 0, "CloudWatchMetrics": [{"Namespace": "n"}]}}))
"""


def test_metrics_in_a_functions_log_become_metrics(lab: Lab) -> None:

    name = lab.function(METRICS)
    for _ in range(2):
        lab.client("lambda").invoke(FunctionName=name, Payload=json.dumps({"stack": name}))
    now = datetime.datetime.now(tz=datetime.UTC)

    def total(metric: str, statistic: str) -> list[float]:
        response = lab.client("cloudwatch").get_metric_statistics(
            Namespace="rackrate",
            MetricName=metric,
            Dimensions=[{"Name": "service", "Value": name}],
            StartTime=now - datetime.timedelta(minutes=5),
            EndTime=now + datetime.timedelta(minutes=5),
            Period=3600,
            Statistics=[statistic],
        )
        return [point[statistic] for point in response["Datapoints"]]

    eventually(lambda: sum(total("RunsSucceeded", "Sum")), lambda number: number == 2.0)
    assert set(total("RunSeconds", "Maximum")) == {61.5}
