"""A run on two arms of two nodes each, for tests of what the functions do with it."""

from __future__ import annotations

import json

RUN = "run-1"
EXECUTIONS = "arn:aws:states:us-east-1:123456789012:execution:rackrate-benchmark:"
ARN = EXECUTIONS + RUN
#: Short enough for the output the fake cluster's pods print.
PLAN = {
    "tests": [
        {"name": "tcp-1", "seconds": 2},
        {"name": "tcp-8", "streams": 8, "seconds": 2},
        {"name": "rtt", "count": 10},
    ],
    "seed": 42,
}
PODS = "/api/v1/namespaces/rackrate/pods"


class Eks:
    """EKS, as far as node groups' health goes."""

    def __init__(self, *issues):
        self.issues = [{"code": code, "message": message} for code, message in issues]
        self.asked = []

    def describe_nodegroup(self, *, clusterName, nodegroupName):
        self.asked.append(nodegroupName)
        return {"nodegroup": {"status": "ACTIVE", "health": {"issues": self.issues}}}


class States:
    """Step Functions, in which every execution has one status."""

    def __init__(self, status):
        self.status = status

    def describe_execution(self, *, executionArn):
        return {"status": self.status}


def trials(store):
    return list(store.trials(RUN).values())


def json_of(store, name):
    """One of the run's objects as a reader of the bucket sees it."""
    return json.loads(store.find_text(RUN, name))
