"""Each function's role allows the calls that the function makes, and no others."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from rackrate.errors import CampaignEnded, NodesUnavailable
from rackrate.executions.leases import Lease
from rackrate.measure import manifests
from rackrate.measure.obstacles import REPLACEMENT_SECONDS
from rackrate.times import now
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.changes.fake_eks import NEW, OLD
from tests.unit.changes.fake_eks import Eks as Addons
from tests.unit.changes.test_instance_type import MEDIUM, SMALL
from tests.unit.changes.test_instance_type import Ec2 as InstanceTypes
from tests.unit.given import Given
from tests.unit.samples import HOST_SETTINGS, NODES
from tests.unit.stack.custom_resources import listener
from tests.unit.stack.custom_resources import request as cloudformation_request
from tests.unit.stages.campaigns import Executions, NodeGroups, results_of_run, store_run
from tests.unit.stages.runs import ARN, PODS, RUN, missed
from tests.unit.stages.test_count import answering
from tests.unit.test_handlers import (
    SCHEDULED,
    Context,
    NoPrices,
    stopped,
)

RESOURCES = {
    name: resource
    for template in ("benchmark.yaml", "campaign.yaml")
    for name, resource in load(ROOT / "templates" / template)["Resources"].items()
}
NAMES = [
    "_".join(re.findall("[A-Z][a-z]+", name.removesuffix("Function"))).lower()
    for name, resource in RESOURCES.items()
    if resource["Type"] == "AWS::Serverless::Function"
]


def _words(name):
    """A handler's name as in the template."""
    return name.title().replace("_", "")


#: What IAM asks for an operation of another name. A transaction needs what its parts need.
NEEDED = {"TransactWriteItems": "PutItem"}
#: The caller of the test's own calls.
NOBODY = "nobody"


class Recorded:
    """A client that records the called operations."""

    def __init__(self, service, client, note):
        self._service, self._client, self._note = service, client, note

    def __getattr__(self, name):
        if name == "get_paginator":
            return self._paginator
        if name == "exceptions":
            return self._client.exceptions
        method = getattr(self._client, name)

        def call(**arguments):
            self._note(self._service, "".join(part.title() for part in name.split("_")))
            return method(**arguments)

        return call

    def _paginator(self, operation):
        self._note(self._service, "".join(part.title() for part in operation.split("_")))
        return self._client.get_paginator(operation)


class Eks(NodeGroups):
    """Node groups, and add-ons that every node has at once."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self._addons = Addons(cluster)
        self._releases, self._versions = {}, {}

    def describe_nodegroup(self, *, clusterName, nodegroupName):
        answer = super().describe_nodegroup(clusterName=clusterName, nodegroupName=nodegroupName)
        release = self._releases.get(nodegroupName, "1.36.3-20260701")
        image = {"amiType": "AL2023_x86_64_STANDARD", "version": "1.36", "releaseVersion": release}
        template = {"id": "lt-1", "version": self._versions.get(nodegroupName, "1")}
        more = {"instanceTypes": None, "launchTemplate": template, "subnets": ["subnet-1"]}
        return {"nodegroup": {**answer["nodegroup"], **image, **more}}

    def update_nodegroup_version(
        self, *, clusterName, nodegroupName, releaseVersion, launchTemplate=None
    ):
        self._releases[nodegroupName] = releaseVersion
        if launchTemplate:
            self._versions[nodegroupName] = launchTemplate["version"]
        return {"update": {"id": "update-1"}}

    def describe_update(self, **names):
        if "nodegroupName" in names:
            return {"update": {"status": "Successful"}}
        return self._addons.describe_update(**names)

    def __getattr__(self, name):
        return getattr(self._addons, name)

    def update_addon(self, **arguments):
        answer = self._addons.update_addon(**arguments)
        self._addons.end(arguments["addonName"])
        return answer


class Ec2:
    """EC2 with the instances of the treatment, and room for more nodes."""

    def __init__(self, ec2):
        self._ec2 = ec2
        for node in NODES["treatment"]:
            ec2.place(node, "together", "cluster")
        self._templates = InstanceTypes()
        self._templates.templates = {"lt-1": {1: {"data": {"InstanceType": SMALL}, "about": ""}}}

    def __getattr__(self, name):
        own = "launch_template" in name or "offerings" in name
        return getattr(self._templates if own else self._ec2, name)

    def describe_instance_types(self, **request):
        return (self._templates if "Filters" in request else self._ec2).describe_instance_types(
            **request
        )

    def describe_images(self, *, Owners, Filters):
        [name] = Filters[0]["Values"]
        dates = ("20260601", "20260701")
        return {
            "Images": [
                {"Name": name.replace("*", date), "Description": "(k8s: 1.36.3)"} for date in dates
            ]
        }

    def describe_subnets(self, *, SubnetIds):
        return {"Subnets": [{"AvailableIpAddressCount": 900, "AvailabilityZone": "us-east-1a"}]}


class Quotas:
    """Service Quotas with room for more nodes."""

    def get_service_quota(self, *, ServiceCode, QuotaCode):
        return {"Quota": {"Value": 450.0}}


@pytest.fixture
def calls(store, cluster, ec2, autoscaling, monkeypatch):
    """The calls of each function in runs on an idle stack, with all kinds of errors.

    By function: the actions, and the actions on objects with their keys.
    """
    made, objects = defaultdict(set), defaultdict(set)
    running = [NOBODY]

    def note(service, operation):
        made[running[-1]].add(f"{service}:{NEEDED.get(operation, operation)}")

    def heard(model, **_):
        note(model.service_model.service_name, model.name)

    def note_call(params, model, **_):
        if "Key" in params and model.service_model.service_name == "s3":
            objects[running[-1]].add((f"s3:{model.name}", params["Key"]))

    class Prices(NoPrices):
        def paginate(self, **_):
            note("pricing", "GetProducts")
            return super().paginate()

    class Connecting(Given):
        def __getattribute__(self, name):
            if name == "cluster":
                note("eks", "DescribeCluster")  # the first call of `Cluster`
            return super().__getattribute__(name)

    executions = Executions("ABORTED")
    node_groups = Eks(cluster)
    given = Connecting(
        settings=replace(HOST_SETTINGS, idle_scale_to_zero=True, owns_nodes=True),
        store=store,
        cluster=cluster,
        region="us-east-1",
        pricing=Prices(),
        eks=Recorded("eks", node_groups, note),
        autoscaling=Recorded("autoscaling", autoscaling, note),
        ec2=Recorded("ec2", Ec2(ec2), note),
        quotas=Recorded("servicequotas", Quotas(), note),
        step_functions=Recorded("states", executions, note),
    )
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "rackrate")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "stack")
    modules = {name: importlib.import_module(f"handlers.{name}") for name in NAMES}

    for module in modules.values():
        monkeypatch.setattr(module, "resources", given)

    def call(name, **event):
        running.append(name)
        try:
            return modules[name].handler(event, Context())
        finally:
            running.append(NOBODY)

    sign = store.objects.link

    def link(key, **options):
        note("s3", "GetObject")  # the link's reader calls this with the signer's permissions
        objects[running[-1]].add(("s3:GetObject", key))
        return sign(key, **options)

    monkeypatch.setattr(store.objects, "link", link)
    monkeypatch.setenv("DASHBOARD_URL", "")
    listened = [store.table.client.meta.events, store.objects._s3.meta.events]
    for events in listened:
        events.register("before-call", heard)
        events.register("before-parameter-build", note_call)
    _live_through_everything(call, store, cluster, executions)
    run = {"run_id": "woken", "execution_arn": ARN, "plan": {"tests": ["rtt"]}}
    call("wake_nodes", **run)
    for name in ("wake_nodes", "plan"):
        _refused_without_nodes(call, cluster, node_groups, name, **run)
    store.runs.finish("woken", "failed")
    _live_through_campaigns(call, store, store.campaigns, given.eks)
    call("plan_campaign", campaign_id="c", execution_arn="arn:c", input={"draws": 2})
    call("take_lease", campaign_id="c")
    call("judge", campaign_id="c", state={})
    node_groups.held = True
    call("change", campaign_id="c")
    _refused_without_nodes(call, cluster, node_groups, "change", campaign_id="c")
    for events in listened:
        events.unregister("before-call", heard)
        events.unregister("before-parameter-build", note_call)
    return made, objects


def _live_through_everything(call, store, cluster, executions):
    executions.statuses[ARN] = "RUNNING"
    start = {"run_id": RUN, "execution_arn": ARN}
    plan = {"tests": [{"name": "tcp-1", "seconds": 2}], "tolerated_loss": 0.9}
    plan["blocks"] = {"least": 2, "most": 3}
    call("plan", **start, plan={"dry_run": True})
    call("plan", run_id="before", execution_arn=ARN, plan={"dry_run": True})
    store.runs.update("before", status="succeeded")
    call("plan", **start, plan={"dry_run": True, "compare_with": "before"})
    workload = {"tests": [{"name": "etcd", "members": 1}]}
    call("plan", run_id="workload", execution_arn=ARN, plan=workload)
    call("deploy", run_id="workload")
    call("await_servers", run_id="workload")
    call("teardown", run_id="workload")
    store.runs.finish("workload", "succeeded")
    for _ in range(2):
        call("wake_nodes", run_id="run-0", execution_arn=ARN, plan=plan)
    call("plan", **start, plan=plan)
    held = Lease(run_id="run-0", kind="run", taken_at=now(), expected_end=now(), expires_at=now())
    store.leases.hold(["baseline"], held)
    call("take_lease", run_id=RUN)
    call("deploy", **start)
    call("await_servers", run_id=RUN)
    cluster.on_client = answering(cluster)
    call("count", run_id=RUN, when="before")
    call("count", run_id=RUN, when="after")
    cluster.on_client = in_one_arm_only(cluster)
    warm_up = store.runs.items(RUN, "warm_up.json")[0].to_json()
    launched = call("launch", run_id=RUN, item=warm_up)
    event = {name: launched[name] for name in ("repeated", "attempt", "deadline")}
    call("collect", run_id=RUN, item=warm_up, **event)
    call("check_links", run_id=RUN)  # records the pairs that cannot talk
    cluster.on_client = cluster.succeed
    items = [item.to_json() for item in store.runs.items(RUN)]
    call("collect", run_id=RUN, item=items[1], failure={"Error": "ServersNotReady"})
    (server,) = {pair["server"] for pair in items[0]["pairs"] if pair["arm"] == "treatment"}
    gone = cluster.objects.pop(key := f"{PODS}/server-{server}")
    kept = list(cluster.nodes)
    (lost,) = (each for each in kept if each["metadata"]["name"] == server)
    # EC2 is asked about it, but it is of another type, so it takes no place.
    labels = {**lost["metadata"]["labels"], "node.kubernetes.io/instance-type": "c5n.large"}
    other = {**lost, "metadata": {**lost["metadata"], "name": "other", "labels": labels}}
    cluster.nodes = [each for each in kept if each is not lost] + [other]
    call("launch", run_id=RUN, item=items[0])  # looks for another node for the place
    cluster.nodes = kept
    missed(store, REPLACEMENT_SECONDS + 1, server)
    call("launch", run_id=RUN, item=items[0])  # writes down what a pair without a server lost
    cluster.objects[key] = gone
    for item in (items[0], items[-1]):
        launched = call("launch", run_id=RUN, item=item)
        event = {name: launched[name] for name in ("repeated", "attempt", "deadline")}
        call("collect", run_id=RUN, item=item, **event)
    call("look", run_id=RUN, batch=1)
    call("analyze", run_id=RUN, failure=None)
    reported = call("report", run_id=RUN)
    call("teardown", run_id=RUN)
    cluster.nodes = cluster.nodes[1:]
    missed(store, REPLACEMENT_SECONDS + 1, *NODES["treatment"], *NODES["baseline"])
    with pytest.raises(NodesUnavailable):
        call("await_servers", run_id=RUN)
    executions.statuses.clear()
    call("finish", **start, redrives=0, state={"reported": reported})
    copy_run(store, RUN, "run-2")
    store.table.client.put_item(
        TableName="results",
        Item={
            name: {"S": value}
            for name, value in (("pk", "baseline#good"), ("sk", "baseline"), ("run_id", RUN))
        },
    )
    requested = {"compare": {"run": "run-2", "with": "good"}}
    call("compare", comparison_id="c", execution_arn=ARN, input=requested)
    call("rest_nodes", run_id="run-0")
    call("wake_nodes", **start, plan=plan)
    call("teardown", **stopped("ABORTED"))
    call("teardown", **SCHEDULED)
    failed = {"failure": {"Error": "NodesUnavailable", "Cause": "gone"}, "reported": reported}
    store.runs.finish(RUN, "failed")
    for redrives in (0, 1):  # it fails, is redriven, and goes on with the plan that it has
        call("finish", run_id=RUN, redrives=redrives, task_token="token", state=failed)
    cluster.nodes = kept
    executions.statuses[ARN] = "RUNNING"
    call("plan", **start, plan=plan)
    executions.statuses.clear()
    store.runs.start("last", "running", now(), execution_arn=ARN)
    with listener() as (url, _):
        call("teardown", **cloudformation_request("Delete", {}, ResponseURL=url))


def _live_through_campaigns(call, store, campaigns, eks):
    for addon in ("vpc-cni", "kube-proxy"):
        eks.roll(name=addon, have=4)
    start = {"campaign_id": "camp", "execution_arn": "arn:camp"}
    plan = {"tests": [{"name": "tcp-1", "seconds": 2}]}
    dry = {"plan": plan, "dry_run": True}
    for sweep in ({"nodes": [2, 3]}, {"kube_proxy": ["iptables", "nftables"]}):
        call("plan_campaign", **start, input={**dry, "sweep": sweep})
    call("plan_campaign", **start, input={**dry, "plan": {**plan, "compare_with": "run-2"}})
    store.objects.put(
        "pools/p/1.json", store.runs.find_text("run-2", "results.json").decode(), "x/y"
    )
    pool = {"campaign_id": "pool", "execution_arn": "arn:pool"}
    call("plan_campaign", **pool, input={"pool": [{"results": "pools/p/1.json"}]})
    call("report_campaign", campaign_id="pool")
    versions = {"plan": plan, "sweep": {"vpc_cni": [OLD, NEW]}, "runs_per_step": 1}
    call("plan_campaign", **start, input=versions)
    call("take_lease", campaign_id="camp")
    for _ in range(2):
        step = call("judge", campaign_id="camp", state={})
        while not call("change", campaign_id="camp")["ready"]:
            pass
        store_run(store, results_of_run(step["run_id"]))
    for name in ("judge", "change"):
        # These ask Step Functions whether a campaign that has ended goes on after all.
        campaigns.finish("camp", "aborted")
        with pytest.raises(CampaignEnded):
            call(name, campaign_id="camp", state={})
        campaigns.reopen("camp")
    call("judge", campaign_id="camp", state={})
    call("report_campaign", campaign_id="camp")
    while not call("restore", campaign_id="camp")["done"]:
        pass
    state = {"reported": {"report_key": "campaigns/camp/report.html"}}
    call("finish_campaign", **start, state=state)
    for name, values in (
        ("ami_release", ["1.36.3-20260601", "1.36.3-20260701"]),
        ("instance_type", [MEDIUM, SMALL]),
    ):
        swept = {"campaign_id": name.replace("_", "-"), "execution_arn": f"arn:{name}"}
        sweep = {"plan": plan, "sweep": {name: values}, "runs_per_step": 1}
        call("plan_campaign", **swept, input={**sweep, "budget_dollars": 1000.0})
        call("take_lease", campaign_id=swept["campaign_id"])
        call("judge", campaign_id=swept["campaign_id"], state={})
        while not call("change", campaign_id=swept["campaign_id"])["ready"]:
            pass
        while not call("restore", campaign_id=swept["campaign_id"])["done"]:
            pass
        call("finish_campaign", **swept, state={})
    second = {"campaign_id": "second", "execution_arn": "arn:second"}
    call("plan_campaign", **second, input={"continue": "camp"})
    campaigns.update("second", step_run_id="child")
    store.runs.start("child", "running", now(), execution_arn="arn:child")
    call("restore", **{"detail-type": "Scheduled Event"})
    call("plan_campaign", campaign_id="last-one", execution_arn="arn:last", input=versions)
    with listener() as (url, _):
        call("restore", **cloudformation_request("Delete", {}, ResponseURL=url))


def _refused_without_nodes(call, cluster, node_groups, name, **event):
    """Call a function while the nodes are gone and EKS reports why."""
    kept, cluster.nodes = cluster.nodes, []
    node_groups.held, node_groups.issues = True, [{"code": "Broken", "message": "gone"}]
    with pytest.raises(NodesUnavailable):
        call(name, **event)
    node_groups.held, node_groups.issues = False, []
    cluster.nodes = kept


def copy_run(store, run_id, other):
    """Copy a run with all its items and objects."""
    run = store.runs.find(run_id)
    store.runs.start(other, run.status, run.started_at)
    for name in ("plan.json", "schedule.json", "analysis.json", "results.json"):
        text = store.runs.find_text(run_id, name).decode()
        store.runs.put_text(other, name, text, "application/json")
    for trial in store.trials.of(run_id).values():
        store.trials.put(other, trial)


def in_one_arm_only(cluster):
    """Let the tests of client pods fail in all arms but the first."""

    def answer(pod):
        code = int(pod["metadata"]["labels"][manifests.ARM] != "treatment")
        cluster.finish(pod, {"tcp-1": code})

    return answer


def allowed(function):
    """The actions of a function's own role, with all options of the stack enabled."""
    (policy,) = RESOURCES[f"{_words(function)}Role"]["Properties"]["Policies"]
    actions = set()
    for statement in policy["PolicyDocument"]["Statement"]:
        chosen = statement["Fn::If"][1] if "Fn::If" in statement else statement
        action = chosen["Action"]
        actions |= {action} if isinstance(action, str) else set(action)
    return actions


def allowed_objects(function, action):
    """The keys, with stars, for which a function's own role allows an action."""
    (policy,) = RESOURCES[f"{_words(function)}Role"]["Properties"]["Policies"]
    return {
        arn["Fn::Sub"].removeprefix("${BucketArn}/")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement.get("Action") == action
        for arn in statement["Resource"]
    }


def test_every_role_allows_exactly_what_its_function_calls_and_the_objects_that_it_asks_for(calls):
    actions, objects = calls
    assert {name: actions[name] for name in NAMES} == {name: allowed(name) for name in NAMES}
    assert any(objects[name] for name in NAMES)
    refused = {
        (name, action, key)
        for name in NAMES
        for action, key in objects[name]
        if not any(fnmatchcase(key, pattern) for pattern in allowed_objects(name, action))
    }
    assert refused == set()


def test_what_functions_read_from_the_bucket_is_what_others_wrote():
    written, read = set(), set()
    for name in NAMES:
        for objects, action in ((written, "s3:PutObject"), (read, "s3:GetObject")):
            objects |= {key.removeprefix("runs/*/") for key in allowed_objects(name, action)}
    assert read - written == {"pools/*"}, "the command uploads these"
    kept = {"trials.csv", "raw/*", "comparisons/*/comparison.json"}
    tables = {f"{table}/day=*/*.parquet" for table in ("trials", "verdicts")}
    mapped = {"blocks_*.json"}
    assert written - read == kept | tables | mapped, "for people and for the state machine"
