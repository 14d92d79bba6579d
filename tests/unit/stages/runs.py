"""A run on two arms of two nodes each, for tests of the stages."""

from __future__ import annotations

import json
from dataclasses import replace

from rackrate.measure import manifests
from rackrate.plan.items import block_items
from rackrate.stages.run.collect import collect
from rackrate.times import later, now
from rackrate_contract.selectors import Selector
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.samples import SETTINGS

RUN = "run-1"
EXECUTIONS = "arn:aws:states:us-east-1:123456789012:execution:rackrate-benchmark:"
ARN = EXECUTIONS + RUN
#: Short enough to match the output of the fake cluster's pods.
PLAN = {
    "tests": [
        {"name": "tcp-1", "seconds": 2},
        {"name": "tcp-8", "streams": 8, "seconds": 2},
        {"name": "rtt", "count": 10},
    ],
    "blocks": 6,
    "seed": 42,
}
PODS = "/api/v1/namespaces/rackrate/pods"


class Eks(FakeNodeGroups):
    """EKS whose node groups have these health issues."""

    def __init__(self, *issues):
        reported = [{"code": code, "message": message} for code, message in issues]
        super().__init__(health={"issues": reported})


class Tasks:
    """Step Functions that notes what its tasks are told."""

    class exceptions:
        class TaskTimedOut(Exception): ...

    def __init__(self):
        self.outcomes = []

    def send_task_success(self, **outcome):
        self.outcomes.append(outcome)

    def send_task_failure(self, **outcome):
        self.outcomes.append(outcome)


class States:
    """Step Functions in which all executions have the same status."""

    def __init__(self, status):
        self.status = status

    def describe_execution(self, *, executionArn):
        return {"status": self.status}


def trials(store):
    return list(store.trials.of(RUN).values())


def collect_pods(resources, item, launched, *, deadline=None, seconds=1):
    """Collect an item's pods as the state machine does, and return what Collect returns."""
    return collect(
        RUN,
        launched.repeated or block_items([item]),
        resources,
        attempt=launched.attempt,
        deadline=launched.deadline if deadline is None else deadline,
        watch_seconds=seconds,
    )


def without_node_groups(cluster):
    """Settings of a stack that knows its nodes by the label `rack`, which they get."""
    for node in cluster.nodes:
        labels = node["metadata"]["labels"]
        group = labels.pop("eks.amazonaws.com/nodegroup")
        labels["rack"] = next(arm.name for arm in SETTINGS.arms if group in arm.node_groups)
    arms = (
        replace(arm, node_groups=(), selector=Selector.parse(f"rack={arm.name}"))
        for arm in SETTINGS.arms
    )
    return replace(SETTINGS, arms=tuple(arms))


def in_cluster(cluster, name):
    """A node of the cluster, as in the Kubernetes API."""
    return next(node for node in cluster.nodes if node["metadata"]["name"] == name)


def json_of(store, name):
    """An object of the run in the bucket, as plain data."""
    return json.loads(store.runs.find_text(RUN, name))


def failing(cluster, arm, test):
    """Let a test fail in the client pods of an arm."""

    def answer(pod):
        of_arm = pod["metadata"]["labels"][manifests.ARM] == arm
        cluster.finish(pod, {test: 1} if of_arm else {})

    return answer


def missed(store, seconds, *places):
    """Let a run have missed the servers of places for so long."""
    since = later(now(), -seconds)
    store.runs.update(RUN, missing_since=dict.fromkeys(places, since))
