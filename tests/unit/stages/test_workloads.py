"""A run with a workload: its members, its load, and what happens when it is lost."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from rackrate import registry
from rackrate.errors import ClusterUnreachable, InvalidPlan, Throttled
from rackrate.measure import manifests, members
from rackrate.plan.items import block_items
from rackrate.settings import LOAD, StackArm
from rackrate.stages.run import collect
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.check_links import check_links
from rackrate.stages.run.report import report
from rackrate.stages.run.teardown import teardown
from rackrate_contract.results import Results
from rackrate_contract.selectors import Selector
from tests.unit.measure import fake_cluster
from tests.unit.samples import DATA, LABEL, SETTINGS, node
from tests.unit.stages.runs import RUN, Eks, trials

PRINTED = (DATA / "etcd" / "3.6.8" / "one-client.txt").read_text()
ETCD = {"name": "etcd", "puts": 300, "members": 2, "settle_seconds": 7}
PLAN = {"tests": [{"name": "rtt", "count": 10}, ETCD], "blocks": 2, "seed": 42}
LOAD_NODES = StackArm(LOAD, "none", False, ("ng-3",), Selector.parse(f"{LABEL}=ng-3"))


@pytest.fixture
def settings():
    return replace(SETTINGS, load=LOAD_NODES, load_node_count=1)


@pytest.fixture(autouse=True)
def etcd(cluster, monkeypatch):
    """A load node, and the output of etcd's benchmark."""
    cluster.nodes.append(node("node-l", "ng-3"))
    monkeypatch.setitem(fake_cluster.PRINTED, "benchmark", PRINTED)


def pods(cluster, role):
    return sorted(cluster.of_role(role), key=lambda pod: pod["metadata"]["name"])


def of_etcd(store):
    return [t for t in trials(store) if t.test == "etcd" and not t.warm_up]


def test_members_are_on_the_arms_nodes_and_know_each_others_names(deploy, cluster):
    deploy(PLAN)
    service = next(thing for path, thing in cluster.objects.items() if "/services/" in path)
    member_pods = pods(cluster, "member")
    assert [(p["spec"]["hostname"], p["spec"]["nodeName"]) for p in member_pods] == [
        ("etcd-baseline-0", "node-c"),
        ("etcd-baseline-1", "node-d"),
        ("etcd-treatment-0", "node-a"),
        ("etcd-treatment-1", "node-b"),
    ]
    for pod in member_pods:
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        container = member_of(pod)
        arm = pod["metadata"]["labels"][manifests.ARM]
        for index in range(2):
            name = f"etcd-{arm}-{index}"
            peer = f"{name}=http://{name}.{service['metadata']['name']}:2380"
            assert any(peer in word for word in container["command"])
    selected = service["spec"]["selector"].items()
    assert all(selected <= pod["metadata"]["labels"].items() for pod in member_pods)


def test_load_comes_from_the_load_node_to_one_arm_at_a_time_and_first_to_each_in_turn(
    deploy, measure, store
):
    items = block_items(deploy(PLAN))
    of_workload = [item for item in items if item.workload is not None]
    arms = [[pair.arm for pair in item.pairs] for item in of_workload]
    assert all(len(of_item) == 1 for of_item in arms)
    assert arms[:2] == arms[2:][::-1]
    assert [item.pause_seconds for item in of_workload] == [7, 0, 0, 0]
    measure(*items)
    measured = of_etcd(store)
    assert [(t.client, t.status, t.value) for t in measured] == [
        ("node-l", "measured", 0.0002413)
    ] * 4
    assert {t.values["operations"] for t in measured} == {3605.098387821632 / 2}
    assert all(trial.is_measured for trial in trials(store))


def test_a_workload_has_verdicts_and_results_say_where_its_load_came_from(
    deploy, measure, store, resources
):
    items = block_items(deploy({**PLAN, "tests": [ETCD]}))
    assert [item.workload is not None for item in items] == [True] * 4, "nothing else is measured"
    await_servers(RUN, resources)
    measure(*store.runs.items(RUN))
    assert analyze(RUN, resources, after_failure=False).lost == 0
    report(RUN, resources, failure=None)
    results = store.runs.find_document(RUN, "results.json", Results)
    assert {verdict.metric for verdict in results.verdicts} == {
        "latency",
        "latency_p99",
        "operations",
    }
    assert [(w.arm, w.load_nodes, w.load_from) for w in results.workloads] == [
        ("treatment", ("node-l",), "load nodes"),
        ("baseline", ("node-l",), "load nodes"),
    ]
    assert results.workloads[0].phases.measure == 2 * 3.0
    assert b"node-l (load nodes)" in store.runs.find_text(RUN, "report.html")


def test_a_page_draws_no_matrix_of_nodes_for_load_from_several_nodes(
    deploy, measure, cluster, store, resources
):
    cluster.nodes.append(node("node-m", "ng-3"))
    deploy({**PLAN, "tests": [{**ETCD, "loaders": 2}]})
    await_servers(RUN, resources)
    measure(*store.runs.items(RUN))
    assert {each.client for each in of_etcd(store)} == {"node-l", "node-m"}
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    page = (store.runs.find_text(RUN, "report.html") or b"").decode()
    assert "node-m" in page
    assert "node by node" not in page


def test_the_load_pod_has_the_addresses_of_all_members_of_its_arm(deploy, measure, cluster):
    item = next(i for i in block_items(deploy(PLAN)) if i.workload is not None)
    cluster.on_client = lambda pod: (started.append(pod), cluster.succeed(pod))
    started: list[dict] = []
    measure(item)
    (pod,) = started
    arm = item.pairs[0].arm
    member_pods = [
        p for p in pods(cluster, "member") if p["metadata"]["labels"][manifests.ARM] == arm
    ]
    urls = ",".join(f"http://{p['status']['podIP']}:2379" for p in member_pods)
    assert f"--endpoints={urls}" in pod["spec"]["containers"][0]["command"]
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet", "etcd tells its leader by name"


def test_without_load_nodes_the_load_comes_from_nodes_without_a_member(plan, resources, store):
    ours = resources.but(settings=SETTINGS)
    tests = [{**ETCD, "members": 1}]
    plan({**PLAN, "tests": tests}, settings=ours.settings)
    places = {
        (pair.client, pair.server) for i in block_items(store.runs.items(RUN)) for pair in i.pairs
    }
    assert places == {("node-b", "node-a"), ("node-d", "node-c")}


@pytest.mark.parametrize(
    ("test", "field", "remedy"),
    [
        ({**ETCD, "members": 2}, "tests[1].members", "LoadNodeCount=1"),
        ({**ETCD, "members": 3}, "tests[1].members", "enlarge"),
    ],
)
def test_a_plan_without_nodes_for_its_workload_is_refused_with_a_remedy(plan, test, field, remedy):
    with pytest.raises(InvalidPlan) as caught:
        plan({**PLAN, "tests": [PLAN["tests"][0], test]}, settings=SETTINGS, eks=Eks())
    (fault,) = caught.value.faults
    assert fault.path == field
    assert remedy in fault.remedy


def test_a_load_pod_has_the_files_of_its_workload_and_a_number_of_its_own(
    deploy, measure, cluster, monkeypatch
):
    monkeypatch.setitem(fake_cluster.PRINTED, "latte", "")
    test = {"name": "cassandra", "members": 2, "replicas": 2}
    items = block_items(deploy({**PLAN, "tests": [test], "blocks": 1}))
    seen = []

    def ended(pod):
        seen.append(pod)
        cluster.finish(pod, {"cassandra": 1})

    cluster.on_client = ended
    measure(*items)
    numbers = set()
    for pod in seen:
        (container,) = pod["spec"]["containers"]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "files"]
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "files"]
        (item,) = volume["downwardAPI"]["items"]
        field = item["fieldRef"]["fieldPath"]
        note = field.removeprefix("metadata.annotations['").removesuffix("']")
        assert "pub async fn load" in pod["metadata"]["annotations"][note]
        assert f"{mount['mountPath']}/{item['path']}" in container["command"]
        numbers |= {e["value"] for e in container["env"] if e["name"] == "POD_NUMBER"}
    assert len(numbers) == len(seen) > 0


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("starting\nthe disk is full\n\n", "the disk is full"),
        (
            '{"level":"panic","msg":"failed to create WAL","error":"no space left on device"}\n'
            "panic: failed to create WAL\n\ngoroutine 1 [running]:\nmain.main()\n",
            "failed to create WAL: no space left on device",
        ),
        ("panic: no quorum\n\ngoroutine 7 [running]:\nmain.main()\n", "panic: no quorum"),
        (
            "ERROR 2026-11-24 18:03:00,056 JVM state determined to be unstable.  Exiting "
            "forcefully due to: java.io.IOException: No space left on device\n"
            "\tat java.base/sun.nio.ch.IOUtil.write(IOUtil.java:72)\nINFO  bye\n",
            "ERROR 2026-11-24 18:03:00,056 JVM state determined to be unstable.  Exiting "
            "forcefully due to: java.io.IOException: No space left on device",
        ),
        (
            "INFO  GC\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n",
            "Terminating due to java.lang.OutOfMemoryError: Java heap space",
        ),
        ('{"level":"warn","error":"slow"}\n{broken "error"\nkilled', "killed"),
        ("", ""),
    ],
)
def test_a_members_last_words_say_why_it_ended_and_not_where(printed, words):
    assert members._last_words(printed) == words


def test_a_workload_that_ends_while_it_starts_costs_its_arm_alone(
    deploy, measure, cluster, store, resources
):
    def start(pod):
        cluster.be_ready(pod)
        if pod["spec"]["hostname"] == "etcd-baseline-1":
            end(cluster, pod, exitCode=1, reason="Error")

    cluster.on_member = start
    deploy(PLAN)
    assert await_servers(RUN, resources).ready
    measure(*store.runs.items(RUN))
    lost = [trial for trial in trials(store) if not trial.is_measured]
    assert {(trial.test, trial.arm) for trial in lost} == {("etcd", "baseline")}
    for trial in lost:
        assert "etcd-baseline-1 on node-d" in trial.reason
        assert "exit code 1" in trial.reason
        assert "the disk is full" in trial.reason


def test_a_workload_that_fails_its_warm_up_is_no_link_that_is_down(
    deploy, measure, store, resources, cluster
):
    cluster.on_client = lambda pod: cluster.finish(pod, {"etcd": 1})
    deploy({**PLAN, "tests": [ETCD]})
    measure(*block_items(store.runs.items(RUN, "warm_up.json")))
    assert check_links(RUN, resources).down == 0
    assert len(store.runs.find(RUN).warnings) == 2


def test_a_trial_fails_if_a_member_was_killed_while_it_was_measured(
    deploy, measure, cluster, store
):
    items = block_items(deploy(PLAN))
    item = next(item for item in items if item.workload is not None)
    arm = item.pairs[0].arm

    def measured(pod):
        cluster.succeed(pod)
        member = next(
            p for p in pods(cluster, "member") if p["spec"]["hostname"] == f"etcd-{arm}-0"
        )
        end(cluster, member, exitCode=137, reason="OOMKilled")

    cluster.on_client = measured
    measure(item)
    (trial,) = of_etcd(store)
    assert trial.status == "failed"
    assert "too much memory" in trial.reason
    assert trial.raw_key, "what the load pod printed is kept"
    assert trial.values == {}


def test_a_member_that_is_never_ready_is_waited_for_no_longer_than_it_may_take(
    deploy, cluster, store, resources
):
    def start(pod):
        cluster.be_ready(pod)
        pod["status"]["conditions"] = []
        for each in pod["status"]["containerStatuses"]:
            each["ready"] = False  # since 2026-11-21, when it started

    cluster.on_member = start
    deploy(PLAN)
    assert await_servers(RUN, resources).ready
    starts = store.runs.find_document(RUN, members.NAME, members.WorkloadStarts)
    assert {each.failure is None for of in starts.workloads for each in of.members} == {False}


def test_a_member_without_its_volume_is_lost_with_what_its_claim_says(
    deploy, measure, cluster, store
):
    classes = "/apis/storage.k8s.io/v1/storageclasses/gp3"
    cluster.objects[classes] = {"metadata": {"name": "gp3"}}
    events = f"/api/v1/namespaces/{SETTINGS.namespace}/events"
    event = "Waiting for a volume to be created by the external provisioner 'ebs.csi.aws.com'"

    def wait(pod):  # since 2026-11-21, when it was created
        claim = f"{pod['metadata']['name']}-data"
        for number, message in enumerate((event, "an older one")):
            cluster.objects[f"{events}/{claim}.{number}"] = {
                "metadata": {"name": f"{claim}.{number}"},
                "involvedObject": {"kind": "PersistentVolumeClaim", "name": claim},
                "lastTimestamp": f"2026-11-21T08:00:0{9 - number}Z",
                "message": message,
            }

    cluster.on_member = wait
    volume = {"storage_class": "gp3", "gib": 1}
    measure(*block_items(deploy({**PLAN, "tests": [{**ETCD, "storage": volume}]})))
    for trial in of_etcd(store):
        assert trial.status == "failed"
        assert event in trial.reason and "older" not in trial.reason


def test_how_members_started_is_kept(deploy, store, resources):
    deploy(PLAN)
    assert await_servers(RUN, resources).ready
    starts = store.runs.find_document(RUN, members.NAME, members.WorkloadStarts)
    assert [(of.test, of.arm, [m.node for m in of.members]) for of in starts.workloads] == [
        ("etcd", "treatment", ["node-a", "node-b"]),
        ("etcd", "baseline", ["node-c", "node-d"]),
    ]
    first = starts.workloads[0].members[0]
    assert (first.started_at, first.ready_at) == (fake_cluster.STARTED, fake_cluster.FINISHED)


class TestCpuOfMembers:
    """The second container of a member's pod prints the CPU time that the member used."""

    @pytest.fixture(autouse=True)
    def counted(self, cluster):
        """Members that use 0.4 and 0.9 CPUs, from ten seconds before a trial until ten after."""
        started = datetime.fromisoformat(fake_cluster.STARTED)

        def start(pod):
            cluster.be_ready(pod)
            percent = {"0": 40, "1": 90}[pod["spec"]["hostname"][-1]]
            lines = (
                f"{started + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}.5Z"
                f" {5000 + second}.00 {700 + percent * second}"
                for second in range(-10, 13)
            )
            name = pod["metadata"]["name"]
            cluster.logs[name, "etcd-cpu"] = "".join(f"{line}\n" for line in lines)

        cluster.on_member = start

    def measured(self, deploy, measure, store):
        measure(*block_items(deploy({**PLAN, "tests": [ETCD]})))
        stored = of_etcd(store)
        assert all(trial.is_measured for trial in stored)
        return stored

    def test_trials_and_the_page_have_the_mean_of_the_members_and_the_busiest(
        self, deploy, measure, store, resources
    ):
        for trial in self.measured(deploy, measure, store):
            assert trial.detail("members_cpu_percent") == pytest.approx(65)
            assert trial.detail("busiest_member_cpu_percent") == pytest.approx(90)
        analyze(RUN, resources, after_failure=False)
        report(RUN, resources, failure=None)
        workloads = store.runs.find_document(RUN, "results.json", Results).workloads
        for each in workloads:
            assert each.members_cpu_percent == pytest.approx(65)
            assert each.busiest_member_cpu_percent == pytest.approx(90)
        page = store.runs.find_text(RUN, "report.html").decode()
        assert "65 %" in page and "90 %" in page

    @pytest.mark.parametrize("log", [None, "", "sh: not found\n", "2026-11-21T08:00:01Z 1.00 9\n"])
    def test_without_the_figure_of_one_member_there_is_none_and_no_trial_is_lost(
        self, deploy, measure, cluster, store, log
    ):
        start = cluster.on_member

        def fail(pod):
            start(pod)
            if pod["spec"]["hostname"] == "etcd-baseline-1":
                cluster.logs[pod["metadata"]["name"], "etcd-cpu"] = log
                if log is None:
                    del cluster.logs[pod["metadata"]["name"], "etcd-cpu"]

        cluster.on_member = fail
        measured = self.measured(deploy, measure, store)
        assert {t.arm for t in measured if "members_cpu_percent" in t.details} == {"treatment"}
        assert {t.arm for t in measured if "busiest_member_cpu_percent" in t.details} == {
            "treatment"
        }

    @pytest.mark.parametrize("error", [ClusterUnreachable("no answer"), Throttled("slow down")])
    def test_a_node_that_does_not_give_the_log_costs_no_trial(
        self, deploy, measure, cluster, store, monkeypatch, error
    ):
        def refuse(*_, **__):
            raise error

        monkeypatch.setattr(cluster, "last_lines", refuse)
        for trial in self.measured(deploy, measure, store):
            assert "members_cpu_percent" not in trial.details

    @pytest.mark.parametrize(
        "state",
        [
            {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no sh"}},
            {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        ],
    )
    def test_a_member_is_ready_and_not_lost_if_the_container_that_counts_fails(
        self, deploy, measure, cluster, store, resources, state
    ):
        start = cluster.on_member

        def fail(pod):
            start(pod)
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            (status,) = [s for s in pod["status"]["containerStatuses"] if s["name"] == "etcd-cpu"]
            status |= {"ready": False, "state": state}
            del cluster.logs[pod["metadata"]["name"], "etcd-cpu"]

        cluster.on_member = fail
        deploy({**PLAN, "tests": [ETCD], "blocks": 1})
        assert await_servers(RUN, resources).ready
        starts = store.runs.find_document(RUN, members.NAME, members.WorkloadStarts)
        for each in (each for of in starts.workloads for each in of.members):
            assert (each.started_at, each.ready_at) == (fake_cluster.STARTED, None)
            assert each.failure is None
        measure(*store.runs.items(RUN))
        assert all(trial.is_measured for trial in trials(store))

    def test_a_trial_that_has_just_finished_is_waited_for_until_its_end_was_printed(
        self, deploy, measure, monkeypatch
    ):
        slept = []
        now = datetime.fromisoformat(fake_cluster.FINISHED).timestamp() + 0.5
        monkeypatch.setattr(collect.time, "sleep", slept.append)
        items = block_items(deploy({**PLAN, "tests": [ETCD]}))
        monkeypatch.setattr(collect.time, "time", lambda: now)
        measure(items[0])
        assert max(slept) == pytest.approx(1.5)

    def test_it_runs_from_the_tools_image_beside_a_member_of_any_image(
        self, deploy, cluster, settings
    ):
        own = f"registry.example/etcd@sha256:{'0' * 64}"
        allowing = replace(settings, allowed_images=(own,))
        deploy({**PLAN, "tests": [{**ETCD, "image": own}]}, settings=allowing)
        for pod in pods(cluster, "member"):
            counts, member = pod["spec"]["containers"]
            assert pod["spec"]["shareProcessNamespace"]
            assert (counts["name"], member["name"]) == ("etcd-cpu", "etcd")
            assert (counts["image"], member["image"]) == (SETTINGS.tool_image, own)
            assert counts["securityContext"] == member["securityContext"]
            assert counts["resources"] == {
                "requests": {"cpu": "10m", "memory": "16Mi"},
                "limits": {"memory": "32Mi"},
            }


def test_teardown_leaves_nothing_of_a_workload(deploy, cluster, resources):
    deploy(PLAN)
    assert teardown(RUN, resources).gone
    assert cluster.objects == {}


def end(cluster, pod, **ended):
    """Let the container of a member's pod end."""
    container = member_of(pod)["name"]
    let_end(pod, container, **ended)
    cluster.logs[pod["metadata"]["name"], container] = "starting\nthe disk is full\n"


def let_end(pod, container, **ended):
    """Let one of a pod's containers end. The pod is not ready then."""
    times = {"startedAt": fake_cluster.STARTED, "finishedAt": fake_cluster.FINISHED}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    (status,) = [s for s in pod["status"]["containerStatuses"] if s["name"] == container]
    status |= {"ready": False, "state": {"terminated": {**times, **ended}}}


def member_of(pod):
    """The container of a member, and not the one that counts its CPU time."""
    (container,) = [c for c in pod["spec"]["containers"] if not c["name"].endswith("-cpu")]
    return container


def test_a_workload_on_as_many_nodes_as_there_are_is_refused_if_it_needs_more(plan):
    test = {"name": "cassandra", "members": None, "replicas": 3}
    with pytest.raises(InvalidPlan) as caught:
        plan({"tests": [test], "blocks": 1})
    (fault,) = caught.value.faults
    assert fault.path == "tests[0].replicas"
    assert "2 members" in str(fault)


def test_members_of_cassandra_that_are_no_seeds_wait_for_the_seeds_as_long_as_they_may_take():
    test = registry.test_class("cassandra")(name="ring", tool="cassandra", members=4)
    names = [f"ring-{index}.service" for index in range(4)]
    delays = [
        int(re.search(r"ring_delay_ms=(\d+)", test.files(index, names)["java.options"])[1])
        for index in range(4)
    ]
    assert max(delays[:3]) < delays[3] == test.ready_seconds * 1000
