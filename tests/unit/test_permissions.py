"""Each function's role allows the calls the function makes, and no others."""

from __future__ import annotations

import importlib
from collections import defaultdict
from dataclasses import replace

import pytest

from rackrate import manifests
from rackrate.errors import NodesUnavailable
from tests.templates.cloudformation import ROOT, load
from tests.unit.samples import HOST_SETTINGS
from tests.unit.test_counters import answering
from tests.unit.test_handlers import (
    ARN,
    RUN,
    SCHEDULED,
    Context,
    Eks,
    NoPrices,
    States,
    stopped,
)

TEMPLATE = load(ROOT / "templates" / "benchmark.yaml")
NAMES = [
    name.removesuffix("Function").lower()
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
]


#: Whose calls the test's own are.
NOBODY = "nobody"


class Recorded:
    """A client that notes which operations are called."""

    def __init__(self, service, client, note):
        self._service, self._client, self._note = service, client, note

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def call(**arguments):
            self._note(self._service, "".join(part.title() for part in name.split("_")))
            return method(**arguments)

        return call


@pytest.fixture
def calls(store, cluster, ec2, monkeypatch):
    """The calls of each function in runs on an idle stack that meet every kind of trouble."""
    made = defaultdict(set)
    running = [NOBODY]

    def note(service, operation):
        made[running[-1]].add(f"{service}:{operation}")

    def heard(model, **_):
        note(model.service_model.service_name, model.name)

    class Prices(NoPrices):
        def paginate(self, **_):
            note("pricing", "GetProducts")
            return super().paginate()

    monkeypatch.setenv("AWS_REGION", "us-east-1")
    clients = {
        "pricing": Prices(),
        "eks": Recorded("eks", Eks(), note),
        "ec2": Recorded("ec2", ec2, note),
        "stepfunctions": Recorded("states", States(), note),
    }
    settings = replace(HOST_SETTINGS, idle_scale_to_zero=True)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "rackrate")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "stack")
    modules = {name: importlib.import_module(f"handlers.{name}") for name in NAMES}

    def reach_cluster():
        note("eks", "DescribeCluster")  # what `Cluster` asks first
        return cluster

    for module in modules.values():
        for name, value in (
            ("cluster", reach_cluster),
            ("settings", lambda: settings),
            ("store", lambda: store),
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
        if hasattr(module, "boto3"):
            monkeypatch.setattr(module.boto3, "client", lambda name, **_: clients[name])

    def call(name, **event):
        running.append(name)
        answer = modules[name].handler(event, Context())
        running.append(NOBODY)
        return answer

    sign = store.link

    def link(key, **options):
        note("s3", "GetObject")  # by whoever opens the link, in the name of who signed it
        return sign(key, **options)

    monkeypatch.setattr(store, "link", link)
    monkeypatch.setenv("DASHBOARD_URL", "")
    listened = [store._dynamodb.meta.events, store._s3.meta.events]
    for events in listened:
        events.register("before-call", heard)
    _live_through_everything(call, store, cluster)
    for events in listened:
        events.unregister("before-call", heard)
    return made


def _live_through_everything(call, store, cluster):
    start = {"run_id": RUN, "execution_arn": ARN}
    plan = {"tests": [{"name": "tcp-1", "seconds": 2}], "blocks": 2, "tolerated_loss": 0.9}
    call("plan", **start, plan={"dry_run": True})
    call("plan", run_id="before", execution_arn=ARN, plan={"dry_run": True})
    store.update_run("before", {"status": "succeeded"})
    call("plan", **start, plan={"dry_run": True, "compare_with": "before"})
    for _ in range(2):
        call("wake", run_id="run-0", execution_arn=ARN, plan=plan)
    call("plan", **start, plan=plan)
    call("deploy", **start)
    call("ready", run_id=RUN)
    cluster.on_client = answering(cluster)
    call("counters", run_id=RUN, when="before")
    call("counters", run_id=RUN, when="after")
    cluster.on_client = in_one_arm_only(cluster)
    (warm_up, *_) = store.get_json(RUN, "warm_up.json")
    launched = call("launch", run_id=RUN, item=warm_up)
    event = {name: launched[name] for name in ("item", "attempt", "deadline")}
    call("collect", run_id=RUN, **event)
    call("links", run_id=RUN)  # notes the pairs that cannot talk
    cluster.on_client = cluster.succeed
    items = store.get_json(RUN, "schedule.json")
    call("collect", run_id=RUN, item=items[1], failure={"Error": "ServersNotReady"})
    for item in (items[0], items[-1]):
        launched = call("launch", run_id=RUN, item=item)
        event = {name: launched[name] for name in ("item", "attempt", "deadline")}
        call("collect", run_id=RUN, **event)
    call("analyze", run_id=RUN, after_failure=False)
    reported = call("report", run_id=RUN)
    call("teardown", run_id=RUN)
    cluster.nodes = cluster.nodes[1:]
    with pytest.raises(NodesUnavailable):
        call("ready", run_id=RUN)
    call("finish", **start, state={"reported": reported})
    copy_run(store, RUN, "run-2")
    store._dynamodb.put_item(
        TableName="results",
        Item={
            name: {"S": value}
            for name, value in (("pk", "baseline#good"), ("sk", "baseline"), ("run_id", RUN))
        },
    )
    asked = {"compare": {"run": "run-2", "with": "good"}}
    call("compare", comparison_id="c", execution_arn=ARN, input=asked)
    call("rest", run_id="run-0")
    call("wake", **start, plan=plan)
    call("teardown", **stopped("ABORTED"))
    call("teardown", **SCHEDULED)


def copy_run(store, run_id, other):
    """Makes a second run that left the very same."""
    run = store.run(run_id)
    known = ("status", "started_at", "trials_measured", "trials_failed", "trials_planned")
    store.start_run(other, {name: run[name] for name in known})
    for name in ("plan.json", "schedule.json", "analysis.json", "results.json"):
        store.put_json(other, name, store.get_json(run_id, name))
    for key, trial in store.trials(run_id).items():
        store.put_trial(other, key, trial)


def in_one_arm_only(cluster):
    """Client pods whose tests fail unless they are of the first arm."""

    def answer(pod):
        code = int(pod["metadata"]["labels"][manifests.ARM] != "treatment")
        cluster.finish(pod, {"tcp-1": code})

    return answer


def allowed(function):
    """The actions of a function's own role, with every option of the stack chosen."""
    (policy,) = TEMPLATE["Resources"][f"{function.title()}Role"]["Properties"]["Policies"]
    actions = set()
    for statement in policy["PolicyDocument"]["Statement"]:
        chosen = statement["Fn::If"][1] if "Fn::If" in statement else statement
        action = chosen["Action"]
        actions |= {action} if isinstance(action, str) else set(action)
    return actions


def test_every_role_allows_exactly_what_its_function_calls(calls):
    assert {name: calls[name] for name in NAMES} == {name: allowed(name) for name in NAMES}


def test_what_functions_read_from_the_bucket_is_what_others_wrote():
    written, read = set(), set()
    for name in NAMES:
        (policy,) = TEMPLATE["Resources"][f"{name.title()}Role"]["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]:
            if str(statement.get("Action")).startswith("s3:"):
                arns = [arn["Fn::Sub"] for arn in statement["Resource"]]
                objects = {
                    arn.removeprefix("${BucketArn}/").removeprefix("runs/*/") for arn in arns
                }
                (written if statement["Action"] == "s3:PutObject" else read).update(objects)
    assert read <= written
    kept = {"trials.csv", "raw/*", "comparisons/*/comparison.json"}
    tables = {f"{table}/day=*/*.parquet" for table in ("trials", "verdicts")}
    assert written - read == kept | tables, "what is written for people is read by no function"
