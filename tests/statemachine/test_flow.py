"""Execute the definition: the functions that it calls and their order, also after failures.

moto's engine executes it, with scripted functions. tests/unit tests the functions themselves.
"""

from __future__ import annotations

import functools
import io
import json
import time
import uuid
import zipfile
from pkgutil import resolve_name

import boto3
import pytest
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.eval import (
    resource_eval_s3,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor.distributed_item_processor_worker import (  # noqa: E501
    DistributedItemProcessorWorker,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from lab.aws import moto_patches
from lab.aws.step_functions import interpreter
from rackrate.errors import GIVING_UP
from tests.statemachine.definition import COMPARISON, definition, placeholders
from tests.waiting import HUNG_SECONDS

REGION = "us-east-1"
#: A bucket for these tests only, because others in the same process count their objects.
BUCKET = "flow"
#: How often the executions were redriven.
REDRIVES = {"count": 0}
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})

PLANNED = {
    "run_id": "r",
    "dry_run": False,
    "blocks_key": "runs/r/blocks_1.json",
    "looks": 1,
    "warm_up": True,
    "warm_up_key": "runs/r/warm_up.json",
    "blocks": 2,
    "trials": 4,
    "expected_seconds": 90,
    "estimate": {"seconds": 90, "cost": {"total": 0.12}},
}
OUTPUT = {"status": "succeeded", "conclusion": "It is better.", "verdicts": ["it is better"]}
COMPARED = {
    "conclusion": "Nothing differed.",
    "differences": [],
    "verdicts": ["treatment against treatment (run-1): rtt is better"],
    "report": "https://bucket.example/report.html",
    "report_valid": "a while",
    "comparison_key": "comparisons/c/comparison.json",
}
READY = {"ready": True, "access_lost": False, "wait_seconds": 0}
FINISHED = {"finished": True, "access_lost": False, "wait_seconds": 0}
TORN_DOWN = {"gone": True, "access_lost": False}
LOST_ACCESS = {"ready": False, "access_lost": True, "wait_seconds": 0}
TAKEN = {"taken": True, "waited": False, "wait_seconds": 0}
BUSY = {"taken": False, "waited": True, "wait_seconds": 0}
COLD = {**PLANNED, "warm_up": False, "warm_up_key": None}
LOOKING = {**COLD, "blocks": 4, "looks": 2}
#: The items of each object that a Map reads.
ITEMS = {
    "runs/r/warm_up.json": [
        {"kind": "block", "progress": "warm-up", "block": 0, "warm_up": True, "pause_seconds": 0}
    ],
    "runs/r/blocks_1.json": [
        {"kind": "block", "progress": f"block {n} of 2", "block": n, "pause_seconds": 0}
        for n in (1, 2)
    ],
    "runs/r/blocks_2.json": [
        {"kind": "block", "progress": "block 3 of at most 3", "block": 3, "pause_seconds": 1}
    ],
}
ENOUGH = {"enough": True, "batch": 1, "items_key": "runs/r/blocks_1.json"}
MORE = {"enough": False, "batch": 2, "items_key": "runs/r/blocks_2.json"}


class Failure:
    """The answer of a function that raises."""

    def __init__(self, error, message="it went wrong"):
        self.error, self.message = error, message


def first_failure(state):
    """What the execution ends with, or None."""
    return state["failure"] or state.get("later_failure")


class ScriptedFunctions:
    """Scripted functions. An answer is a value, a Failure, a list of them, or a callable."""

    def __init__(self):
        self.calls = []
        self.ends = []
        self.answers = {}

    def invoke(self, backend, function_name, qualifier, body, headers, response_headers):
        name = function_name.rpartition(":")[2].removesuffix("Function")
        event = json.loads(body)
        if "task_token" in event:  # the state that ends a failed execution
            return self.end(event)
        self.calls.append((name, event))
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(event)
        if isinstance(answer, Failure):
            response_headers["x-amz-function-error"] = "Unhandled"
            answer = {"errorType": answer.error, "errorMessage": answer.message}
        return json.dumps(answer).encode()

    def end(self, event):
        """End an execution as its last state's function does, or let a redriven one go on."""
        self.ends.append(event)
        engine = stepfunctions_parser_backends[DEFAULT_ACCOUNT_ID][REGION]
        if event["redrives"]:
            engine.send_task_success(event["task_token"], "{}")
        else:
            state = event["state"]
            failure = first_failure(state) or state["finish_failure"]
            cause = state.get("finished", {}).get("cause") or failure["Cause"]
            engine.send_task_failure(event["task_token"], failure["Error"], cause)
        return b"null"

    @property
    def names(self):
        return [name for name, _ in self.calls]

    def events(self, name):
        return [event for called, event in self.calls if called == name]


class Functions(ScriptedFunctions):
    """The functions of a run that goes well."""

    def __init__(self):
        super().__init__()
        self.answers = {
            "WakeNodes": {"ready": True, "wait_seconds": 0},
            "Plan": PLANNED,
            "TakeLease": TAKEN,
            "Deploy": {},
            "AwaitServers": READY,
            "Bootstrap": {},
            "Count": {"nodes": 0},
            "CheckLinks": {"links": 1, "down": 0},
            "Look": ENOUGH,
            "Launch": lambda event: {
                "ready": True,
                "access_lost": False,
                "pods": 2,
                "repeated": None,
                "attempt": 1,
                "wait_seconds": 0,
                "deadline": 0,
                "gave_up": None,
            },
            "Collect": FINISHED,
            "Analyze": {},
            "Report": {"report_key": "runs/r/report.html"},
            "Teardown": TORN_DOWN,
            "RestNodes": {"rested": ["one", "two"], "busy": [], "needed_by": []},
            "Finish": lambda event: {
                "output": OUTPUT,
                "cause": (first_failure(event["state"]) or {}).get("Cause"),
            },
            "Compare": COMPARED,
        }


@pytest.fixture(scope="module")
def machines():
    """The state machines, by the value of IdleScaleToZero, in one emulated Region for all tests.

    One is of a stack that always has nodes, another of a stack that idles at zero, and one compares
    finished runs.
    """
    config = {"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=config):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        _read_once(patch)
        _count_redrives(patch)
        # moto itself never fails a Map Run.
        patch.setattr(DistributedItemProcessorWorker, "_eval_pool", interpreter.eval_pool)
        role = boto3.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=TRUST)
        arns = create_functions(role["Role"]["Arn"], placeholders() | placeholders(COMPARISON))
        shared = {**arns, "Partition": "aws", "BucketName": BUCKET}
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        for key, items in ITEMS.items():
            boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=json.dumps(items))
        machines = {
            idles: (f"idle-{idles}", definition({**shared, "IdleScaleToZero": idles}))
            for idles in ("false", "true")
        }
        machines["comparison"] = ("comparison", definition(shared, COMPARISON))
        yield {
            key: _create_machine(*machine, role["Role"]["Arn"]) for key, machine in machines.items()
        }


@pytest.fixture
def functions(monkeypatch):
    scripted = Functions()
    monkeypatch.setattr(
        LambdaSimpleBackend, "invoke", lambda backend, *args: scripted.invoke(backend, *args)
    )
    return scripted


@pytest.fixture
def run(machines, functions):
    """Execute the definition with an input. Returns the execution's description."""
    return _executing(machines["false"], functions)


@pytest.fixture
def idle_run(machines, functions):
    """The same as `run`, for a stack that has no nodes between runs."""
    return _executing(machines["true"], functions)


def _executing(machine, functions):
    states = boto3.client("stepfunctions", region_name=REGION)
    engine = stepfunctions_parser_backends[DEFAULT_ACCOUNT_ID][REGION]

    def execute(plan):
        arn = states.start_execution(
            stateMachineArn=machine, name=f"run-{uuid.uuid4().hex}", input=json.dumps(plan)
        )["executionArn"]
        execution = engine.describe_execution(arn)
        deadline = time.monotonic() + HUNG_SECONDS
        while execution.status == "RUNNING":
            assert time.monotonic() < deadline, f"still running: {functions.names}"
            time.sleep(0.01)
        return states.describe_execution(executionArn=arn)

    return execute


def _read_once(patch):
    """Let moto read each definition and each path once, and make each of its clients once.

    It would read the definition for each execution, a path for each state and make a client for
    each task, which is most of the time of an execution.
    """
    for owner, attribute, replacement in moto_patches.READ_ONCE:
        patch.setattr(resolve_name(owner), attribute, replacement)
    for module in (lambda_eval_utils, resource_eval_s3):
        made = module.boto_client_for
        clients = functools.cache(lambda region, service, made=made: made(region, service))
        patch.setattr(
            module,
            "boto_client_for",
            lambda region, service, state_credentials, clients=clients: clients(region, service),
        )


def _count_redrives(patch):
    """Let the context object have the number of redrives, as AWS's has and moto's has not."""
    made = ExecutionWorker._get_evaluation_environment

    def environment(worker):
        evaluation = made(worker)
        context = evaluation.states.context_object.context_object_data
        context["Execution"]["RedriveCount"] = REDRIVES["count"]
        return evaluation

    patch.setattr(ExecutionWorker, "_get_evaluation_environment", environment)


def _create_machine(name, filled, role):
    retry_once(filled)
    return boto3.client("stepfunctions").create_state_machine(
        name=name, definition=json.dumps(filled), roleArn=role
    )["stateMachineArn"]


def create_functions(role, names):
    """Make a function for each placeholder of a function's ARN, unless there is one.

    Returns the ARNs by placeholder. Two machines share a function, and other tests their Region.
    """
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("empty.py", "")
    client = boto3.client("lambda")
    there = {
        each["FunctionName"]: each["FunctionArn"] for each in client.list_functions()["Functions"]
    }
    arns = {}
    for placeholder in names:
        name = placeholder.removesuffix("Arn")
        if name.endswith("Function"):
            arns[placeholder] = (
                there.get(name)
                or client.create_function(
                    FunctionName=name,
                    Runtime="python3.13",
                    Role=role,
                    Handler="empty.handler",
                    Code={"ZipFile": empty.getvalue()},
                )["FunctionArn"]
            )
    return arns


def retry_once(value):
    """Limit retries to one after at most a second, because Step Functions does the counting."""
    if isinstance(value, dict):
        for retry in value.get("Retry", []):
            retry |= {"IntervalSeconds": 1, "MaxDelaySeconds": 2, "MaxAttempts": 1}
        for entry in value.values():
            retry_once(entry)


ONCE = ["Launch", "Collect"]
START = ["Plan", "TakeLease", "Deploy", "AwaitServers", "Count"]
ENDING = ["Report", "Teardown", "Finish"]


def test_a_good_run_visits_every_step_in_order(run, functions):
    execution = run({})
    assert execution["status"] == "SUCCEEDED"
    measuring = [*ONCE, "CheckLinks", *ONCE, *ONCE, "Count"]
    assert functions.names == [*START, *measuring, "Analyze", *ENDING]
    (plan,) = functions.events("Plan")
    assert plan["plan"] == {} and plan["run_id"] == execution["name"]
    assert plan["execution_arn"] == execution["executionArn"]
    assert [e["item"]["block"] for e in functions.events("Launch")] == [0, 1, 2]
    assert functions.events("CheckLinks") == [{"run_id": execution["name"]}]
    assert functions.events("Count") == [
        {"run_id": execution["name"], "when": when} for when in ("before", "after")
    ]
    assert functions.events("Finish")[0]["state"]["failure"] is None


@pytest.mark.parametrize("plan", [[1, 2], None, {"failure": "mine", "dry_run": True}])
def test_any_json_reaches_the_plan_function_as_it_is(run, functions, plan):
    run(plan)
    assert functions.events("Plan")[0]["plan"] == plan


def test_an_invalid_plan_starts_nothing_and_fails_with_lambdas_own_cause(run, functions):
    functions.answers["Plan"] = Failure("InvalidPlan", "blocks: is wrong; correct it")
    execution = run({"blocks": "x"})
    assert execution["status"] == "FAILED"
    assert execution["error"] == "InvalidPlan"
    assert json.loads(execution["cause"])["errorMessage"] == "blocks: is wrong; correct it"
    assert functions.names == ["Plan", "Finish"]
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "InvalidPlan"


def test_a_dry_run_stops_after_planning(run, functions):
    functions.answers["Plan"] = {**PLANNED, "run_id": "mine", "dry_run": True}
    execution = run({"dry_run": True})
    assert functions.names == ["Plan"]
    output = json.loads(execution["output"])
    assert (output["run_id"], output["dry_run"]) == ("mine", True)
    assert output["estimate"] == PLANNED["estimate"]


def test_the_output_of_a_run_is_what_finish_says_of_it_and_nothing_else(run, functions):
    assert json.loads(run({})["output"]) == OUTPUT
    assert functions.events("Finish")[0]["state"]["reported"] == {
        "report_key": "runs/r/report.html"
    }


def test_the_cause_of_a_failure_is_what_finish_makes_of_it(run, functions):
    functions.answers["AwaitServers"] = Failure("ServersNotReady")
    functions.answers["Finish"] = {"output": None, "cause": "it was so; the report is there"}
    execution = run({})
    assert (execution["error"], execution["cause"]) == (
        "ServersNotReady",
        "it was so; the report is there",
    )


def test_a_failure_keeps_its_own_cause_when_its_end_cannot_be_written_down(run, functions):
    functions.answers["AwaitServers"] = Failure("ServersNotReady", "no room")
    functions.answers["Finish"] = Failure("KeyError")
    execution = run({})
    assert execution["error"] == "ServersNotReady"
    assert json.loads(execution["cause"])["errorMessage"] == "no room"


def test_a_redriven_execution_leaves_its_last_state_and_begins_with_its_input(
    run, functions, monkeypatch
):
    monkeypatch.setitem(REDRIVES, "count", 1)
    functions.answers["AwaitServers"] = [
        Failure("ServersNotReady"),
        READY,
    ]
    assert run({"blocks": 2})["status"] == "SUCCEEDED"
    assert [end["redrives"] for end in functions.ends] == [1]
    assert [event["plan"] for event in functions.events("Plan")] == [{"blocks": 2}] * 2
    assert functions.events("Finish")[-1]["state"]["failure"] is None
    assert [event["redrives"] for event in functions.events("Finish")] == [1, 1]


def test_each_item_says_first_in_its_input_which_block_it_is_of(run, monkeypatch):
    """The console shows the input of an item's execution."""
    seen = []
    prepare = DistributedItemProcessorWorker._eval_input

    def noting(worker, env_frame):
        prepare(worker, env_frame)
        seen.append(next(iter(env_frame.states.get_input().items())))

    monkeypatch.setattr(DistributedItemProcessorWorker, "_eval_input", noting)
    assert run({})["status"] == "SUCCEEDED"
    assert seen == [
        ("progress", "warm-up"),
        ("progress", "block 1 of 2"),
        ("progress", "block 2 of 2"),
    ]


def test_it_measures_on_until_a_look_finds_enough(run, functions):
    functions.answers["Plan"] = LOOKING
    functions.answers["Look"] = [MORE, {**ENOUGH, "batch": 2}]
    execution = run({})
    assert execution["status"] == "SUCCEEDED"
    assert functions.names == [
        *(*START, *ONCE, *ONCE, "Look", *ONCE, "Look"),
        *("Count", "Analyze", *ENDING),
    ]
    assert [e["item"]["block"] for e in functions.events("Launch")] == [1, 2, 3]
    assert functions.events("Look") == [
        {"run_id": execution["name"], "batch": batch} for batch in (1, 2)
    ]


def test_it_stops_after_a_look_that_finds_enough_and_measures_no_more(run, functions):
    functions.answers["Plan"] = LOOKING
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names == [*START, *ONCE, *ONCE, "Look", "Count", "Analyze", *ENDING]


def test_a_warm_up_is_looked_at_only_by_the_check_of_the_links(run, functions):
    functions.answers["Plan"] = {**PLANNED, "looks": 2}
    run({})
    measuring = [*ONCE, "CheckLinks", *ONCE, *ONCE, "Look", "Count"]
    assert functions.names == [*START, *measuring, "Analyze", *ENDING]


@pytest.mark.parametrize("answers", [[Failure("KeyError")], [MORE, Failure("MemoryError")]])
def test_a_look_that_fails_ends_the_measuring_and_not_the_run(run, functions, answers):
    functions.answers["Plan"] = LOOKING
    functions.answers["Look"] = list(answers)
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Launch") == 1 + len(answers)
    assert functions.names[-6:] == ["Look", "Count", "Analyze", *ENDING]
    assert functions.events("Analyze")[0]["failure"] is None
    assert functions.events("Finish")[0]["state"]["failure"] is None


def test_it_pauses_before_an_item_as_long_as_the_item_says(run, functions):
    functions.answers["Plan"] = {**COLD, "blocks_key": MORE["items_key"]}
    began = time.monotonic()
    assert run({})["status"] == "SUCCEEDED"
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize(
    ("planned", "passes"),
    [(PLANNED, [True, False]), (COLD, [False]), ({**PLANNED, "looks": 2}, [True, False, False])],
)
def test_the_warm_up_is_the_first_pass_of_the_map_in_the_history_and_each_batch_another(
    run, functions, planned, passes
):
    """benchmarks/fidelity.py takes the length of the measuring phase from there."""
    functions.answers["Plan"] = planned
    functions.answers["Look"] = [MORE, {**ENOUGH, "batch": 2}]
    arn = run({})["executionArn"]
    history = boto3.client("stepfunctions", region_name=REGION).get_execution_history(
        executionArn=arn, maxResults=1000
    )["events"]
    inputs = [
        json.loads(event["stateEnteredEventDetails"]["input"])
        for event in history
        if event["type"] == "MapStateEntered"
    ]
    assert [state["measuring"]["warm_up"] for state in inputs] == passes
    assert sum(event["type"] == "MapStateExited" for event in history) == len(passes)


def test_links_that_are_down_fail_the_run_before_it_measures_and_are_not_tried_again(
    run, functions
):
    functions.answers["CheckLinks"] = Failure("LinksDown", "arm baseline, a to b: no route")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", "LinksDown")
    assert json.loads(execution["cause"])["errorMessage"] == "arm baseline, a to b: no route"
    assert functions.names == [*START, *ONCE, "CheckLinks", "Analyze", *ENDING]
    (analyze,) = functions.events("Analyze")
    assert analyze["failure"]["Error"] == execution["error"]
    assert functions.events("Report")[0]["failure"]["Error"] == "LinksDown"
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "LinksDown"


def test_links_that_cannot_be_checked_fail_the_run_with_what_went_wrong(run, functions):
    functions.answers["CheckLinks"] = Failure("KeyError")
    assert run({})["error"] == "KeyError"
    assert functions.names[-5:] == ["CheckLinks", "Analyze", *ENDING]


def test_a_warm_up_that_cannot_be_launched_is_written_down_for_the_check_of_the_links(
    run, functions
):
    good = functions.answers["Launch"]
    functions.answers["Launch"] = lambda event: (
        Failure("ServersNotReady", "gone") if event["item"]["block"] == 0 else good(event)
    )
    assert run({})["status"] == "SUCCEEDED"
    given_up, *collected = functions.events("Collect")
    assert given_up["failure"]["Error"] == "ServersNotReady"
    assert (given_up["item"]["block"], len(collected)) == (0, 2)
    assert functions.names.count("CheckLinks") == 1


def test_a_warm_up_that_cannot_be_read_fails_the_run_and_still_cleans_up(run, functions):
    functions.answers["Plan"] = {**PLANNED, "warm_up_key": "runs/r/nothing.json"}
    assert run({})["status"] == "FAILED"
    assert functions.names == [*START, "Analyze", *ENDING]


@pytest.mark.parametrize("error", ["ClusterUnreachable", "KeyError"])
def test_counters_that_cannot_be_read_cost_the_run_nothing(run, functions, error):
    functions.answers["Count"] = Failure(error)
    execution = run({})
    assert execution["status"] == "SUCCEEDED"
    assert functions.names[-4:] == ["Analyze", *ENDING]
    assert functions.events("Finish")[0]["state"]["failure"] is None


def test_it_waits_for_its_nodes_and_then_plans_again_with_the_nodes_of_that_time(run, functions):
    functions.answers["TakeLease"] = [BUSY, BUSY, {**TAKEN, "waited": True}]
    execution = run({"blocks": 2})
    assert execution["status"] == "SUCCEEDED"
    assert functions.names[:6] == ["Plan", *["TakeLease"] * 3, "Plan", "Deploy"]
    first, again = functions.events("Plan")
    assert first == again
    assert functions.names.count("CheckLinks") == 1, "the keys of the first plan are kept"
    assert functions.events("TakeLease")[0] == {"run_id": execution["name"]}


@pytest.mark.parametrize(
    ("answers", "called"),
    [
        ({"TakeLease": Failure("NodesBusy", "run-1 holds them")}, ["Plan", "TakeLease", "Finish"]),
        (
            {
                "Plan": [PLANNED, Failure("NodesBusy", "run-1 holds them")],
                "TakeLease": [BUSY, {**TAKEN, "waited": True}],
            },
            ["Plan", "TakeLease", "TakeLease", "Plan", "Finish"],
        ),
    ],
    ids=["take", "plan again"],
)
def test_a_run_that_does_not_get_its_nodes_ends_without_measuring(run, functions, answers, called):
    functions.answers |= answers
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", "NodesBusy")
    assert json.loads(execution["cause"])["errorMessage"] == "run-1 holds them"
    assert functions.names == called
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "NodesBusy"


def test_it_waits_until_the_servers_are_ready(run, functions):
    functions.answers["AwaitServers"] = [{**READY, "ready": False}] * 2 + [READY]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("AwaitServers") == 3


class TestLostAccess:
    """The namespace or the rights in it are gone, and the bootstrap function makes them again."""

    @pytest.mark.parametrize("heal", [{}, Failure("AccessLost")])
    def test_servers_are_awaited_again_after_it(self, run, functions, heal):
        functions.answers |= {"AwaitServers": [LOST_ACCESS, READY], "Bootstrap": heal}
        assert run({})["status"] == "SUCCEEDED"
        around = ["AwaitServers", "Bootstrap", "AwaitServers", "Count"]
        assert functions.names[3:7] == around
        assert functions.events("Bootstrap") == [{"RequestType": "Heal"}]

    @pytest.mark.parametrize("heal", [{}, Failure("AccessLost")])
    def test_an_item_is_launched_again_after_it(self, run, functions, heal):
        good = functions.answers["Launch"]
        lost = [
            lambda event: {**good(event), **LOST_ACCESS, "pods": 0},
            good,
        ]
        functions.answers |= {
            "Launch": lost,
            "Collect": [{**FINISHED, "finished": False, "access_lost": True}, FINISHED],
            "Bootstrap": heal,
            "Plan": COLD,
        }
        assert run({})["status"] == "SUCCEEDED"
        again = ["Launch", "Bootstrap", "Launch", "Collect", "Bootstrap", *ONCE, *ONCE]
        assert functions.names[len(START) : -len(ENDING) - 2] == again

    @pytest.mark.parametrize("heal", [{}, Failure("AccessLost")])
    def test_teardown_is_asked_again_after_it(self, run, functions, heal):
        functions.answers |= {
            "Teardown": [{"gone": False, "access_lost": True}, TORN_DOWN],
            "Bootstrap": heal,
        }
        assert run({})["status"] == "SUCCEEDED"
        assert functions.names[-4:] == ["Teardown", "Bootstrap", "Teardown", "Finish"]


@pytest.mark.parametrize(
    ("function", "error"),
    [("Deploy", "ServersNotReady"), ("AwaitServers", "NodesUnavailable")],
)
def test_a_failure_before_the_blocks_still_reports_cleans_up_and_keeps_its_error(
    run, functions, function, error
):
    functions.answers[function] = Failure(error, "the reason")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", error)
    assert json.loads(execution["cause"])["errorMessage"] == "the reason"
    assert functions.names[-4:] == ["Analyze", *ENDING]
    (analyze,) = functions.events("Analyze")
    assert analyze["failure"]["Error"] == execution["error"]
    assert functions.events("Report")[0]["failure"]["Error"] == error
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == error


def test_more_trouble_after_a_failure_does_not_hide_the_first_error(run, functions):
    functions.answers["AwaitServers"] = Failure("NodesUnavailable")
    functions.answers["Analyze"] = Failure("KeyError")
    functions.answers["Teardown"] = Failure("RuntimeError")
    execution = run({})
    assert execution["error"] == "NodesUnavailable"
    assert functions.names[-3:] == ["Analyze", "Teardown", "Finish"]


@pytest.mark.parametrize("function", ["Analyze", "Report"])
def test_a_good_run_that_cannot_be_reported_is_cleaned_up_and_fails(run, functions, function):
    functions.answers[function] = Failure("KeyError", "the reason")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", "KeyError")
    assert json.loads(execution["cause"])["errorMessage"] == "the reason"
    assert functions.names[-3:] == [function, "Teardown", "Finish"]


@pytest.mark.parametrize("error", sorted(GIVING_UP))
@pytest.mark.parametrize("pods", [0, 1])
def test_a_run_that_gives_up_ends_its_map_at_once_and_fails_with_its_reason(
    run, functions, error, pods
):
    reason = {"error": error, "message": "node a is gone"}
    launched = functions.answers["Launch"]
    functions.answers |= {
        "Plan": LOOKING,
        "Look": MORE,
        "Launch": lambda event: {**launched(event), "pods": pods, "gave_up": reason},
        "Analyze": Failure(error, "node a is gone"),
    }
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", error)
    assert json.loads(execution["cause"])["errorMessage"] == "node a is gone"
    item = ["Launch"] if pods == 0 else ["Launch", "Collect"]
    # The map is tried once more, in case that only an item's execution was lost.
    assert functions.names == [*START, *item, *item, "Analyze", *ENDING]
    assert {event["item"]["block"] for event in functions.events("Launch")} == {1}
    assert functions.events("Report")[0]["failure"]["Error"] == error


def test_a_lost_execution_of_an_item_costs_one_more_pass_and_no_trial(run, functions, monkeypatch):
    functions.answers["Plan"] = COLD
    prepare = DistributedItemProcessorWorker._eval_input
    lost = [True]

    def losing(worker, env_frame):
        prepare(worker, env_frame)
        if env_frame.states.get_input()["item"]["block"] == 2 and lost:
            lost.pop()
            raise RuntimeError("somebody stopped it")

    monkeypatch.setattr(DistributedItemProcessorWorker, "_eval_input", losing)
    assert run({})["status"] == "SUCCEEDED"
    assert [event["item"]["block"] for event in functions.events("Launch")] == [1, 1, 2]


def test_an_item_that_cannot_be_launched_is_written_down_and_the_next_one_runs(run, functions):
    functions.answers["Plan"] = COLD
    good = functions.answers["Launch"]
    functions.answers["Launch"] = lambda event: (
        Failure("ServersNotReady", "gone") if event["item"]["block"] == 1 else good(event)
    )
    assert run({})["status"] == "SUCCEEDED"
    given_up, collected = functions.events("Collect")
    assert given_up["failure"]["Error"] == "ServersNotReady"
    assert given_up["item"]["block"] == 1
    assert collected["item"]["block"] == 2


def test_collecting_goes_on_until_it_says_it_is_finished(run, functions):
    functions.answers["Plan"] = COLD
    unfinished = {**FINISHED, "finished": False}
    functions.answers["Collect"] = [unfinished, unfinished, FINISHED]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Collect") == 4  # three for the first item, one for the second


def test_a_makeup_item_with_nothing_to_do_collects_nothing(run, functions):
    launched = functions.answers["Launch"]
    functions.answers["Launch"] = lambda event: {**launched(event), "pods": 0}
    assert run({})["status"] == "SUCCEEDED"
    assert "Collect" not in functions.names


@pytest.mark.parametrize(
    "error", ["AwsUnavailable", "ClusterUnreachable", "Runtime.ExitError", "Sandbox.Timedout"]
)
def test_what_passes_by_itself_is_tried_again(run, functions, error):
    """All tasks have the same retries (test_definition.py)."""
    functions.answers["Deploy"] = [Failure(error), {}]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Deploy") == 2


def test_what_teardown_cannot_delete_does_not_spoil_a_good_run(run, functions):
    functions.answers["Teardown"] = Failure("ResourceInUse")
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names[-1] == "Finish"


def test_an_end_that_cannot_be_written_down_fails_the_execution(run, functions):
    functions.answers["Finish"] = Failure("ResourceNotFoundException")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", "ResourceNotFoundException")


class TestIdle:
    """A stack that has no nodes between runs.

    All tests above show that other stacks do not wake or rest nodes.
    """

    def test_nodes_wake_first_and_rest_before_the_end_is_written(self, idle_run, functions):
        execution = idle_run({"blocks": 2})
        assert execution["status"] == "SUCCEEDED"
        assert functions.names[:4] == ["WakeNodes", "Plan", "TakeLease", "Deploy"]
        assert functions.names[-4:] == ["Report", "Teardown", "RestNodes", "Finish"]
        (wake,) = functions.events("WakeNodes")
        assert wake == {
            "run_id": execution["name"],
            "execution_arn": execution["executionArn"],
            "plan": {"blocks": 2},
        }
        assert functions.events("Plan")[0]["plan"] == {"blocks": 2}
        assert functions.events("RestNodes") == [{"run_id": execution["name"]}]

    @pytest.mark.parametrize("plan", [[1, 2], None, "true", {"idle_scale_to_zero": "false"}])
    def test_any_json_reaches_the_wake_function_as_it_is(self, idle_run, functions, plan):
        idle_run(plan)
        assert functions.events("WakeNodes")[0]["plan"] == plan

    def test_it_waits_until_the_nodes_are_ready(self, idle_run, functions):
        functions.answers["WakeNodes"] = [{"ready": False, "wait_seconds": 0}] * 3 + [
            {"ready": True, "wait_seconds": 0}
        ]
        assert idle_run({})["status"] == "SUCCEEDED"
        assert functions.names[:5] == ["WakeNodes"] * 4 + ["Plan"]

    def test_nodes_are_woken_again_after_a_wait_for_the_lease(self, idle_run, functions):
        functions.answers["TakeLease"] = [BUSY, {**TAKEN, "waited": True}]
        functions.answers["WakeNodes"] = [
            {"ready": ready, "wait_seconds": 0} for ready in (True, False, True)
        ]
        assert idle_run({"blocks": 2})["status"] == "SUCCEEDED"
        assert functions.names[:8] == [
            *("WakeNodes", "Plan", "TakeLease", "TakeLease"),
            *("WakeNodes", "WakeNodes", "Plan", "Deploy"),
        ]
        first, *again = functions.events("WakeNodes")
        assert again == [first, first]

    def test_an_invalid_plan_wakes_nothing_and_needs_no_rest(self, idle_run, functions):
        functions.answers["WakeNodes"] = Failure("InvalidPlan", "blocks: is wrong; correct it")
        execution = idle_run({"blocks": "x"})
        assert (execution["status"], execution["error"]) == ("FAILED", "InvalidPlan")
        assert functions.names == ["WakeNodes", "Finish"]
        assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "InvalidPlan"

    def test_nodes_that_do_not_come_are_sent_to_rest_and_the_run_keeps_the_reason(
        self, idle_run, functions
    ):
        functions.answers["WakeNodes"] = [
            {"ready": False, "wait_seconds": 0},
            Failure("NodesUnavailable", "no capacity"),
        ]
        execution = idle_run({})
        assert (execution["status"], execution["error"]) == ("FAILED", "NodesUnavailable")
        assert json.loads(execution["cause"])["errorMessage"] == "no capacity"
        assert functions.names == ["WakeNodes", "WakeNodes", "RestNodes", "Finish"]
        assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "NodesUnavailable"

    def test_a_plan_that_fails_on_woken_nodes_still_lets_them_rest(self, idle_run, functions):
        functions.answers["Plan"] = Failure("InvalidPlan", "too few nodes")
        assert idle_run({})["error"] == "InvalidPlan"
        assert functions.names == ["WakeNodes", "Plan", "RestNodes", "Finish"]

    def test_a_run_that_does_not_get_its_nodes_still_lets_nodes_rest(self, idle_run, functions):
        functions.answers["TakeLease"] = Failure("NodesBusy")
        assert idle_run({})["error"] == "NodesBusy"
        assert functions.names == ["WakeNodes", "Plan", "TakeLease", "RestNodes", "Finish"]

    def test_a_failure_in_the_middle_still_lets_nodes_rest(self, idle_run, functions):
        functions.answers["AwaitServers"] = Failure("ServersNotReady")
        assert idle_run({})["error"] == "ServersNotReady"
        assert functions.names[-4:] == ["Report", "Teardown", "RestNodes", "Finish"]

    def test_a_teardown_that_fails_still_lets_nodes_rest(self, idle_run, functions):
        functions.answers["Teardown"] = Failure("ResourceInUse")
        assert idle_run({})["status"] == "SUCCEEDED"
        assert functions.names[-2:] == ["RestNodes", "Finish"]

    @pytest.mark.parametrize("ready", [True, False])
    def test_nodes_that_cannot_be_put_to_rest_change_nothing_about_the_run(
        self, idle_run, functions, ready
    ):
        functions.answers["RestNodes"] = Failure("AccessDeniedException")
        if not ready:
            functions.answers["AwaitServers"] = Failure("ServersNotReady")
        execution = idle_run({})
        assert execution["status"] == ("SUCCEEDED" if ready else "FAILED")
        assert execution.get("error") == (None if ready else "ServersNotReady")
        assert functions.names[-1] == "Finish"
        assert (functions.events("Finish")[0]["state"]["failure"] is None) is ready

    def test_a_dry_run_ends_without_rest_because_nothing_was_woken(self, idle_run, functions):
        functions.answers["Plan"] = {**PLANNED, "dry_run": True}
        execution = idle_run({"dry_run": True})
        assert execution["status"] == "SUCCEEDED"
        assert functions.names == ["WakeNodes", "Plan"]
        assert json.loads(execution["output"])["trials"] == 4


RUNS_TO_COMPARE = {"compare": {"run": "run-2", "with": "run-1"}}


class TestComparison:
    """The state machine that compares finished runs."""

    @pytest.fixture
    def compare(self, machines, functions):
        return _executing(machines["comparison"], functions)

    def test_it_calls_one_function_and_ends_with_its_answer(self, compare, functions):
        execution = compare(RUNS_TO_COMPARE)
        assert functions.calls == [
            (
                "Compare",
                {
                    "comparison_id": execution["name"],
                    "execution_arn": execution["executionArn"],
                    "input": RUNS_TO_COMPARE,
                },
            )
        ], "no node is woken, no run is recorded, and nothing is left to clean up"
        assert execution["status"] == "SUCCEEDED"
        assert json.loads(execution["output"]) == COMPARED

    @pytest.mark.parametrize("error", ["InvalidComparison", "KeyError"])
    def test_it_fails_with_the_exceptions_message_and_not_with_lambdas_document(
        self, compare, functions, error
    ):
        functions.answers["Compare"] = Failure(error, "what went wrong")
        execution = compare(RUNS_TO_COMPARE)
        assert (execution["status"], execution["error"]) == ("FAILED", error)
        assert execution["cause"] == "what went wrong"

    def test_it_fails_with_a_cause_that_is_no_document(self, compare, functions):
        def unavailable(event):
            raise RuntimeError("Lambda is not available")

        functions.answers["Compare"] = unavailable
        execution = compare(RUNS_TO_COMPARE)
        assert (execution["status"], execution["error"]) == ("FAILED", "ComparisonFailed")
        assert "Lambda is not available" in execution["cause"]
