"""The bootstrap custom resource: idempotent, and without effect on others in the cluster."""

from __future__ import annotations

import copy
import datetime
import threading
import time

import pytest
from botocore.exceptions import ClientError

from rackrate.errors import ClusterUnreachable
from rackrate.measure import manifests
from rackrate.stack import custom_resource
from rackrate.stack.administration import AccessPolicy
from rackrate.stack.custom_resource import NOTHING
from rackrate.stages.stack import bootstrap
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.stack.custom_resources import STACK_ID, Context, listener, only
from tests.unit.stack.custom_resources import request as cloudformation_request
from tests.waiting import HUNG_SECONDS

NAMESPACE = "/api/v1/namespaces/bench"


TENANT = bootstrap.Tenant(
    "bench", "rackrate:bench", "my-stack", host_network=True, stack_id=STACK_ID
)


class Rights:
    """Counts how often the right to administer the cluster is taken and given back."""

    taken = given_back = 0

    def take(self):
        self.taken += 1

    def give_back(self):
        self.given_back += 1


def request(kind, *, namespace="bench", **extra):
    if kind != "Create":
        extra.setdefault("PhysicalResourceId", namespace)
    return cloudformation_request(kind, {}, **extra)


def environment(*, namespace="bench", owner="my-stack", host="false", owns="false"):
    return {
        "AWS_DEFAULT_REGION": "us-east-1",
        "CLUSTER_NAME": "cluster",
        "NAMESPACE": namespace,
        "GROUP": f"rackrate:{namespace}",
        "OWNER": owner,
        "HOST_NETWORK": host,
        "OWNS_NODES": owns,
        "STACK_ID": STACK_ID,
        "ROLE_ARN": "arn:aws:iam::123456789012:role/bootstrap",
        "ADMINISTRATOR_POLICY_ARN": "arn:aws:eks::aws:cluster-access-policy/Admin",
    }


def serve(kind, cluster, seconds=5.0, *, rights=None, owner="my-stack", host="false", **extra):
    """A request to the function, whose environment is of the stack with that namespace."""
    named = {"namespace": extra["namespace"]} if "namespace" in extra else {}
    tenant = bootstrap.Tenant.from_environment(environment(**named, owner=owner, host=host))
    connect = cluster if callable(cluster) else lambda: cluster
    return bootstrap.serve_request(
        request(kind, **extra), tenant, connect, rights or Rights(), seconds
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(bootstrap, "_PAUSE_SECONDS", 0.01)


@pytest.fixture
def empty():
    cluster = FakeCluster()
    cluster.nodes = []
    return cluster


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def function(empty, rights, monkeypatch):
    """The function's module, with the environment of a stack."""
    from handlers import bootstrap as function

    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(function, "_connect", lambda: empty)
    monkeypatch.setattr(function, "AccessPolicy", lambda eks, environment: rights)
    return function


def refuse(path):
    raise ClusterUnreachable("the cluster refuses this function")


def test_create_makes_everything_and_again_changes_nothing(empty):
    answer = serve("Create", empty)
    assert answer.physical_id == "bench"
    assert answer.data == {"Namespace": "bench", "HostNamespace": "", "Group": "rackrate:bench"}
    before = copy.deepcopy(empty.objects)
    assert len(before) == 8
    serve("Create", empty)
    assert set(empty.objects) == set(before)


def test_only_a_stack_that_made_the_cluster_may_label_its_nodes(empty):
    tenant = bootstrap.Tenant.from_environment(environment(owns="true"))
    bootstrap.serve_request(request("Create"), tenant, lambda: empty, Rights(), 5)
    role, binding = (
        each for each in empty.objects.values() if "node-keeper" in each["metadata"]["name"]
    )
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    assert [each["name"] for each in binding["subjects"]] == ["rackrate:bench:keepers"]
    bootstrap.serve_request(request("Delete"), tenant, lambda: empty, Rights(), 5)
    assert not [path for path in empty.objects if "keeper" in path]


def test_update_corrects_what_somebody_changed(empty):
    serve("Create", empty)
    path = next(path for path in empty.objects if path.endswith("/roles/runner"))
    rules = empty.objects[path]["rules"]
    empty.objects[path] = {**empty.objects[path], "rules": []}
    serve("Update", empty)
    assert empty.objects[path]["rules"] == rules


@pytest.mark.parametrize("host", ["false", "true"])
def test_delete_removes_everything_and_again_is_fine(empty, host):
    serve("Create", empty, host=host)
    serve("Delete", empty, host=host)
    assert empty.objects == {}
    serve("Delete", empty, host=host)


def test_host_networking_gets_a_namespace_of_its_own_behind_a_guard_that_comes_first(empty):
    serve("Create", empty)
    before = set(empty.objects)
    answer = serve("Update", empty, host="true")
    assert answer.data["HostNamespace"] == "bench-host"
    added = [thing for path, thing in empty.objects.items() if path not in before]
    assert [(thing["kind"], thing["metadata"]["name"]) for thing in added] == [
        ("ValidatingAdmissionPolicy", "bench-host-services.rackrate.dev"),
        ("ValidatingAdmissionPolicyBinding", "bench-host-services.rackrate.dev"),
        ("ValidatingAdmissionPolicy", "bench-host.rackrate.dev"),
        ("ValidatingAdmissionPolicyBinding", "bench-host.rackrate.dev"),
        ("Namespace", "bench-host"),
        ("ResourceQuota", "objects"),
        ("Role", "runner"),
        ("RoleBinding", "runners"),
    ]
    _, _, policy, binding, _, _, role, granted = added
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "bench-host"}
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == (
        "Fail",
        ["Deny"],
    )
    first = empty.objects["/apis/rbac.authorization.k8s.io/v1/namespaces/bench/roles/runner"]
    assert role["rules"] == first["rules"]
    assert granted["subjects"][0]["name"] == "rackrate:bench"


def test_an_update_that_forbids_host_networking_removes_all_of_it(empty):
    serve("Create", empty)
    without = copy.deepcopy(empty.objects)
    serve("Update", empty, host="true")
    serve("Update", empty, host="false")
    assert set(empty.objects) == set(without)


def test_a_host_namespace_of_somebody_else_is_refused_and_left_as_it_was(empty):
    path = "/api/v1/namespaces/bench-host"
    theirs = {"metadata": {"name": "bench-host"}}
    empty.objects[path] = copy.deepcopy(theirs)
    with pytest.raises(bootstrap.NotOurs, match="Namespace bench-host exists"):
        serve("Create", empty, host="true")
    assert empty.objects == {path: theirs}
    serve("Create", empty)
    serve("Delete", empty)
    assert empty.objects == {path: theirs}


def test_a_namespace_is_not_taken_for_the_other_one_of_the_same_stack(empty):
    """Otherwise deleting the old one would delete the namespace that the new one has taken."""
    serve("Create", empty, host="true")
    with pytest.raises(bootstrap.NotOurs, match=r"bench-host-services\.rackrate\.dev exists"):
        serve("Update", empty, namespace="bench-host", PhysicalResourceId="bench")


def test_what_is_replaced_is_replaced_in_the_version_that_was_seen(empty):
    """The API refuses to replace a policy without its resource version."""
    serve("Create", empty, host="true")
    path = next(path for path in empty.objects if "/validatingadmissionpolicies/" in path)
    empty.objects[path]["metadata"]["resourceVersion"] = "41"
    serve("Update", empty, host="true")
    assert empty.objects[path]["metadata"]["resourceVersion"] == "41"


def test_delete_succeeds_when_the_cluster_is_gone_already():
    assert serve("Delete", None).physical_id == "bench"
    with pytest.raises(LookupError):
        serve("Create", None)


@pytest.mark.parametrize(
    ("annotations", "whose"),
    [
        ({}, "was not made by this stack"),
        ({manifests.STACK: "their-stack"}, "belongs to the stack their-stack"),
    ],
)
def test_a_namespace_of_somebody_else_is_refused_and_left_as_it_was(empty, annotations, whose):
    theirs = {"metadata": {"name": "bench", "annotations": annotations}}
    empty.objects[NAMESPACE] = copy.deepcopy(theirs)
    with pytest.raises(bootstrap.NotOurs, match=f"Namespace bench exists.*{whose}.*Choose"):
        serve("Create", empty)
    serve("Delete", empty, PhysicalResourceId=NOTHING)
    assert empty.objects == {NAMESPACE: theirs}


def test_a_cluster_role_of_somebody_else_is_neither_overwritten_nor_deleted(empty):
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rackrate:bench:node-reader"
    theirs = {"metadata": {"name": "rackrate:bench:node-reader"}, "rules": ["theirs"]}
    empty.objects[path] = copy.deepcopy(theirs)
    with pytest.raises(bootstrap.NotOurs, match="ClusterRole rackrate:bench:node-reader"):
        serve("Create", empty)
    assert empty.objects == {path: theirs}, "nothing is created before everything may be"
    serve("Delete", empty, PhysicalResourceId=NOTHING)
    assert empty.objects == {path: theirs}


def test_two_stacks_in_one_cluster_do_not_touch_each_other(empty):
    serve("Create", empty, namespace="one", owner="stack-one")
    first = copy.deepcopy(empty.objects)
    serve("Create", empty, namespace="two", owner="stack-two")
    assert len(empty.objects) == 2 * len(first)
    serve("Delete", empty, namespace="two", owner="stack-two")
    assert empty.objects == first


def test_another_namespace_is_a_replacement_whose_old_one_is_deleted_afterwards(empty):
    serve("Create", empty, namespace="old")
    replaced = serve("Update", empty, namespace="new", PhysicalResourceId="old")
    assert replaced.physical_id == "new"
    serve("Delete", empty, namespace="old")
    alone = FakeCluster()
    serve("Create", alone, namespace="new")
    assert set(empty.objects) == set(alone.objects)


def test_a_namespace_that_is_being_deleted_is_waited_for(empty):
    serve("Create", empty)
    empty.objects[NAMESPACE]["metadata"]["deletionTimestamp"] = "2026-11-21T08:00:00Z"
    tries = []

    def connect():
        tries.append(1)
        if len(tries) == 3:
            empty.objects.clear()
        return empty

    serve("Create", connect)
    assert "deletionTimestamp" not in empty.objects[NAMESPACE]["metadata"]


def test_a_new_access_entry_is_given_time(empty):
    tries = []

    def connect():
        tries.append(1)
        if len(tries) < 3:
            raise ClusterUnreachable("the cluster refuses this function")
        return empty

    serve("Create", connect)
    assert len(tries) == 3 and NAMESPACE in empty.objects


def test_it_gives_up_in_time():
    def connect():
        raise ClusterUnreachable("no route")

    with pytest.raises(ClusterUnreachable, match="no route"):
        serve("Create", connect, 0.05)


def test_deleting_waits_for_the_namespace_but_not_for_ever(empty):
    serve("Create", empty)
    empty.delete = lambda path, foreground=False: None
    with pytest.raises(ClusterUnreachable, match="still being deleted"):
        bootstrap.remove(empty, TENANT, seconds=0)


# -- a deputy that cannot be confused


@pytest.mark.parametrize(
    "properties",
    [
        {"Namespace": "kube-system", "Group": "system:authenticated", "Owner": "their-stack"},
        {"HostNetwork": "true"},
    ],
)
def test_a_request_cannot_say_what_is_made_and_for_whom(empty, properties):
    tenant = bootstrap.Tenant.from_environment(environment())
    expected = serve("Create", FakeCluster()).data
    event = cloudformation_request("Create", properties)
    answer = bootstrap.serve_request(event, tenant, lambda: empty, Rights(), 5)
    assert answer.data == expected
    bound = [thing for thing in empty.objects.values() if thing["kind"].endswith("Binding")]
    assert {subject["name"] for thing in bound for subject in thing.get("subjects", ())} == {
        "rackrate:bench"
    }


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_a_request_of_another_stack_is_refused_before_anything_happens(empty, kind):
    serve("Create", empty)
    before, rights = copy.deepcopy(empty.objects), Rights()
    with pytest.raises(bootstrap.NotOurRequest):
        serve(kind, empty, rights=rights, StackId=STACK_ID.replace("bench", "other"))
    assert (empty.objects, rights.taken) == (before, 0)


def test_the_namespace_of_another_stack_is_not_deleted_whatever_the_request_says(empty):
    serve("Create", empty, namespace="theirs", owner="their-stack")
    before = copy.deepcopy(empty.objects)
    serve("Delete", empty, PhysicalResourceId="theirs")
    assert empty.objects == before


@pytest.mark.parametrize("name", ["../kube-system", "theirs/pods", "", "Bench", "a" * 59])
def test_a_physical_id_that_is_no_namespace_is_refused(empty, name):
    with pytest.raises(bootstrap.NotOurRequest):
        serve("Delete", empty, PhysicalResourceId=name)


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_the_right_to_administer_is_given_back_also_after_a_failure(empty, rights, kind):
    serve(kind, empty, rights=rights)
    assert (rights.taken, rights.given_back) == (1, 1)
    empty.get = refuse
    with pytest.raises(ClusterUnreachable):
        serve(kind, empty, 0.05, rights=rights)
    assert rights.taken > 1 and rights.given_back == 2


class Running(Context):
    """The context of a function whose time passes."""

    def __init__(self, seconds):
        self.ends = time.monotonic() + seconds

    def left(self):
        return self.ends - time.monotonic()

    def get_remaining_time_in_millis(self):
        return int(1000 * self.left())


class HeldRights(Rights):
    """Also notes how much of the function's time was left when the right was given back."""

    def __init__(self, context):
        self.context, self.left = context, []

    def give_back(self):
        super().give_back()
        self.left.append(self.context.left())


@pytest.mark.parametrize("call", ["get", "create", "connect"])
def test_work_that_hangs_ends_while_there_is_time_to_give_the_right_back(empty, rights, call):
    def hang(*arguments, **named):
        threading.Event().wait(HUNG_SECONDS)

    if call != "connect":
        setattr(empty, call, hang)
    with pytest.raises(ClusterUnreachable):
        serve("Create", hang if call == "connect" else empty, 0.2, rights=rights)
    assert rights.given_back == 1, "also where an earlier call may have left it"


def test_a_request_that_fails_until_the_end_gives_the_right_back_before_lambda_ends_it(
    empty, function, monkeypatch
):
    """The request was handled again, with as much time as before: Lambda ended that."""
    context = Running(6.0)
    rights = HeldRights(context)
    monkeypatch.setattr(bootstrap, "RESERVE_SECONDS", 5.0)
    for name, seconds in {"_RESERVE": 0.1, "_MARGIN": 0.0, "_FIRST_PAUSE": 0.01}.items():
        monkeypatch.setattr(custom_resource, f"{name}_SECONDS", seconds)
    empty.get = refuse
    monkeypatch.setattr(function, "AccessPolicy", lambda eks, environment: rights)
    with listener() as (url, responses):
        function.handler(request("Create", ResponseURL=url), context)
    assert "refuses this function" in only(responses)["Reason"]
    assert rights.left and min(rights.left) > 1.0, "most of the reserve is not used"


# -- what a function that was ended has left

HOUR = datetime.timedelta(hours=1)


class Entry:
    """EKS with one access entry and its policies, by when they were associated."""

    def __init__(self, **policies):
        self.policies = policies

    def get_paginator(self, operation):
        assert operation == "list_associated_access_policies"
        return self

    def paginate(self, clusterName, principalArn):
        assert (clusterName, principalArn) == ("cluster", environment()["ROLE_ARN"])
        if self.policies is None:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "List")
        arn = environment()["ADMINISTRATOR_POLICY_ARN"].removesuffix("Admin")
        yield {
            "associatedAccessPolicies": [
                {"policyArn": f"{arn}{name}", "associatedAt": at, "modifiedAt": at}
                for name, at in self.policies.items()
            ]
        }

    def disassociate_access_policy(self, clusterName, principalArn, policyArn):
        del self.policies[policyArn.rpartition("/")[2]]


@pytest.mark.parametrize(
    ("age", "left"),
    [
        (HOUR, ["View"]),
        # A function may have it, which then works.
        (datetime.timedelta(minutes=14), ["View", "Admin"]),
    ],
)
def test_the_schedule_takes_away_what_a_function_that_was_ended_has_left(
    function, monkeypatch, age, left
):
    now = datetime.datetime.now(datetime.UTC)
    eks = Entry(View=now - HOUR, Admin=now - age)
    monkeypatch.setattr(function, "AccessPolicy", lambda _, values: AccessPolicy(eks, values))
    function.handler({"detail-type": "Scheduled Event"}, Context())
    assert list(eks.policies) == left


def test_nothing_is_left_where_the_entry_is_gone():
    eks = Entry()
    eks.policies = None
    AccessPolicy(eks, environment()).give_back_forgotten()


def test_a_right_that_another_call_gave_back_is_taken_again(empty, rights):
    get = empty.get

    def once_refused(path):
        return refuse(path) if rights.taken == 1 else get(path)

    empty.get = once_refused
    serve("Create", empty, rights=rights)
    assert rights.taken == 2 and NAMESPACE in empty.objects


def test_healing_recreates_what_somebody_deleted_and_answers_the_caller(empty, function, rights):
    serve("Create", empty)
    expected = set(empty.objects)
    for path in list(empty.objects)[1:]:
        del empty.objects[path]
    answer = function.handler({"RequestType": "Heal"}, Context())
    assert answer == {"Namespace": "bench", "HostNamespace": "", "Group": "rackrate:bench"}
    assert set(empty.objects) == expected
    assert (rights.taken, rights.given_back) == (1, 1)


def test_update_puts_the_levels_of_pod_security_right_and_keeps_what_others_wrote(empty):
    serve("Create", empty)
    expected = copy.deepcopy(empty.objects[NAMESPACE]["metadata"]["labels"])
    metadata = empty.objects[NAMESPACE]["metadata"]
    metadata["labels"] |= {
        "pod-security.kubernetes.io/enforce": "privileged",
        "pod-security.kubernetes.io/enforce-version": "v1.0",
        "team": "network",
    }
    metadata["annotations"]["their/note"] = "kept"
    serve("Update", empty)
    assert empty.objects[NAMESPACE]["metadata"]["labels"] == expected | {"team": "network"}
    assert empty.objects[NAMESPACE]["metadata"]["annotations"]["their/note"] == "kept"


def test_the_handler_answers_when_it_went_well(function):
    with listener() as (url, responses):
        function.handler(request("Create", ResponseURL=url), Context())
    response = only(responses)
    assert (response["Status"], response["PhysicalResourceId"]) == ("SUCCESS", "bench")
    assert response["Data"]["Group"] == "rackrate:bench"


def test_the_handler_answers_when_it_went_wrong(function, monkeypatch):
    def connect():
        raise RuntimeError("a bug")

    monkeypatch.setattr(function, "_connect", connect)
    with listener() as (url, responses):
        function.handler(request("Delete", ResponseURL=url, PhysicalResourceId="old"), Context())
    response = only(responses)
    assert (response["Status"], response["Reason"]) == ("FAILED", "RuntimeError: a bug")
    assert response["PhysicalResourceId"] == "old"
