"""The handlers, called with the very events the state machine and EventBridge send."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.statemachine.definition import definition, states
from tests.unit.samples import SETTINGS

RUN = "run-1"
ARN = "arn:aws:states:us-east-1:123456789012:execution:rackrate-benchmark:run-1"
MODULES = (
    "plan",
    "deploy",
    "ready",
    "launch",
    "collect",
    "analyze",
    "report",
    "teardown",
    "finish",
)


class Eks:
    def describe_nodegroup(self, **names):
        return {"nodegroup": {"health": {"issues": []}}}


class States:
    def describe_execution(self, **names):
        return {"status": "ABORTED"}


class Context:
    """Lambda's context, as far as the handlers and their logger ask."""

    function_name, memory_limit_in_mb, aws_request_id = "function", 512, "request"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:function"

    def get_remaining_time_in_millis(self):
        return 120_000


@pytest.fixture
def call(store, cluster, ec2, monkeypatch):
    """Calls a handler by name; events and answers pass through JSON, as in Lambda."""
    clients = {"eks": Eks(), "ec2": ec2, "stepfunctions": States()}
    modules = {name: importlib.import_module(f"handlers.{name}") for name in MODULES}
    for module in modules.values():
        for name, value in (("cluster", cluster), ("settings", SETTINGS), ("store", store)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda value=value: value)
        if hasattr(module, "boto3"):
            monkeypatch.setattr(module.boto3, "client", clients.__getitem__)

    def do(name, event):
        answer = modules[name].handler(json.loads(json.dumps(event)), Context())
        return json.loads(json.dumps(answer))

    return do


def payload_keys(state_name):
    machine = dict(states(definition()))
    return {key.removesuffix(".$") for key in machine[state_name]["Parameters"]["Payload"]}


def test_a_run_through_all_handlers(call, store, cluster):
    plan = {"tests": [{"name": "tcp-1", "seconds": 2}, {"name": "rtt", "count": 10}], "blocks": 1}

    def step(name, state, /, **event):
        assert set(event) == payload_keys(state), f"{state} sends other keys"
        return call(name, event)

    planned = step("plan", "Plan", run_id=RUN, execution_arn=ARN, plan=plan)
    assert planned["dry_run"] is False
    step("deploy", "Deploy", run_id=RUN, execution_arn=ARN)
    assert step("ready", "Await servers", run_id=RUN)["ready"] is True
    for item in store.get_json(RUN, "schedule.json"):
        launched = step("launch", "Launch", run_id=RUN, item=item)
        assert set(launched) == {"pods", "item", "attempt", "wait_seconds", "deadline"}
        if launched["pods"]:
            event = {key: launched[key] for key in ("item", "attempt", "deadline")}
            assert step("collect", "Collect", run_id=RUN, **event)["finished"] is True
    assert step("analyze", "Analyze", run_id=RUN, after_failure=False)["measured"] == 4
    step("report", "Report", run_id=RUN)
    assert step("teardown", "Teardown", run_id=RUN)["gone"] is True
    ended = step("finish", "Finish", run_id=RUN, execution_arn=ARN, state={"dry_run": False})
    assert ended["status"] == store.run(RUN)["status"] == "succeeded"
    assert cluster.objects == {}


@pytest.mark.parametrize(
    ("state", "field"),
    [
        ("Await servers", "ready"),
        ("Launch", "pods"),
        ("Collect", "finished"),
        ("Finish", "status"),
    ],
)
def test_what_the_machine_selects_is_what_choices_read(state, field):
    assert field in str(dict(states(definition()))[state]["ResultSelector"])


def test_an_item_that_was_given_up_is_collected_as_lost(call, store):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {"blocks": 1}})
    item = store.get_json(RUN, "schedule.json")[0]
    failure = {"Error": "ServersNotReady", "Cause": "gone"}
    call("collect", {"run_id": RUN, "item": item, "failure": failure})
    assert {t["status"] for t in store.trials(RUN).values()} == {"failed"}


def test_a_failed_run_is_finished_with_its_error(call, store):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    failure = {"Error": "NodesUnavailable", "Cause": "none left"}
    call("finish", {"run_id": RUN, "execution_arn": ARN, "state": {"failure": failure}})
    run = store.run(RUN)
    assert (run["status"], run["error"], run["cause"]) == (
        *("failed", "NodesUnavailable", "none left"),
    )


def test_an_aborted_execution_is_torn_down(call, store, cluster):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    call("deploy", {"run_id": RUN, "execution_arn": ARN})
    call(
        "teardown",
        {
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": {
                "name": RUN,
                "status": "ABORTED",
                "executionArn": ARN,
                "error": None,
                "cause": None,
            },
        },
    )
    assert cluster.objects == {}
    assert store.run(RUN)["status"] == "aborted"


def test_the_schedule_sweeps(call, store, cluster):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    call("deploy", {"run_id": RUN, "execution_arn": ARN})
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    assert call("teardown", event) == {"swept": [RUN]}
    assert cluster.objects == {}


def test_an_event_from_elsewhere_is_refused(call):
    with pytest.raises(ValueError, match="neither a run"):
        call("teardown", {"something": "else"})
