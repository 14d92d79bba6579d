"""Arms whose clients connect to an endpoint outside the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.errors import LinksDown
from rackrate.measure import manifests
from rackrate.plan.items import block_items
from rackrate.settings import Endpoints
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.check_links import check_links
from rackrate.stages.run.launch import launch
from rackrate.stages.run.report import report
from rackrate_contract.arms import Endpoint
from tests.unit.stages import runs
from tests.unit.stages.runs import RUN, Eks, trials

PLAN = {
    **runs.PLAN,
    "tests": runs.PLAN["tests"][:1],
    "arms": [
        {"name": "out", "nodes": "treatment", "endpoint": "instance"},
        {"name": "far", "nodes": "treatment", "endpoint": "10.0.4.5:9000"},
        "baseline",
    ],
    "baseline": "baseline",
}
INSTANCE = Endpoint(name="instance", address="10.0.3.7", instance_id="i-0123")


@pytest.fixture
def settings(settings):
    return replace(settings, endpoints=Endpoints(("10.0.4.0/24",), INSTANCE))


def started(cluster):
    """The command of each client pod that was started last, by arm."""
    commands = {}

    def note(pod):
        arm = pod["metadata"]["labels"][manifests.ARM]
        commands[arm] = pod["spec"]["containers"][0]["command"]
        cluster.succeed(pod)

    cluster.on_client = note
    return commands


def test_clients_connect_to_the_endpoint_and_its_trials_name_it(deploy, measure, cluster, store):
    commands = started(cluster)
    measure(*block_items(deploy(PLAN))[:3])
    assert {
        arm: (argv[argv.index("--client") + 1], argv[argv.index("--port") + 1])
        for arm, argv in commands.items()
        if arm != "baseline"
    } == {"out": ("10.0.3.7", "5201"), "far": ("10.0.4.5", "9000")}
    measured = {(t.arm, t.server, t.via, t.server_network) for t in trials(store)}
    assert measured >= {
        ("out", "instance", "endpoint", None),
        ("far", "10.0.4.5:9000", "endpoint", None),
    }
    assert {trial.status for trial in trials(store)} == {"measured"}
    arms = {arm.name: arm.endpoint for arm in store.runs.plan(RUN).arms}
    assert (arms["out"], arms["baseline"]) == (INSTANCE, None)


def test_nodes_of_such_arms_alone_run_no_server(deploy, cluster, resources):
    deploy(PLAN)
    assert await_servers(RUN, resources.but(eks=Eks())).ready
    containers = {
        each["metadata"]["labels"][manifests.ARM]: [
            container["name"] for container in each["spec"]["template"]["spec"]["containers"]
        ]
        for each in cluster.objects.values()
        if each.get("kind") == "DaemonSet"
    }
    assert containers == {"treatment": ["idle"], "baseline": ["iperf3"]}


def test_a_pair_waits_for_its_node_alone(deploy, cluster, resources, store):
    items = [item for item in block_items(deploy(PLAN)) if item.pairs[0].arm != "baseline"]
    (pair,) = [pair for pair in items[0].pairs if pair.endpoint]
    other = {"node-a": "node-b", "node-b": "node-a"}[pair.client]
    cluster.nodes = [n for n in cluster.nodes if n["metadata"]["name"] != other]
    assert launch(RUN, items[0], resources).pods
    cluster.nodes = [n for n in cluster.nodes if n["metadata"]["name"] != pair.client]
    assert not launch(RUN, items[1], resources.but(eks=Eks())).ready


def test_an_endpoint_that_does_not_answer_is_named_with_what_to_do(
    deploy, measure, cluster, resources, store
):
    deploy(PLAN)

    def refuse(pod):
        if pod["metadata"]["labels"][manifests.ARM] == "far":
            error = "unable to connect to server: Connection refused"
            cluster.logs[pod["metadata"]["name"], "tcp-1"] = f'{{"error": "{error}"}}'
        cluster.succeed(pod)

    cluster.on_client = refuse
    measure(*store.runs.items(RUN, "warm_up.json"))
    with pytest.raises(LinksDown) as caught:
        check_links(RUN, resources)
    message = str(caught.value)
    assert "to 10.0.4.5:9000: iperf3: unable to connect to server: Connection refused" in message
    assert "served at the endpoint" in message and "security group" in message
    assert "between these nodes" not in message


def test_results_and_the_page_name_the_endpoint_and_rank_no_node(
    deploy, measure, store, s3, resources
):
    one, other = (arm | {"endpoint": "instance"} for arm in PLAN["arms"][:2])
    other |= {"nodes": "baseline"}
    measure(*deploy({**PLAN, "arms": [one, other], "baseline": "far", "pairing": "ring"}))
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    results = runs.json_of(store, "results.json")
    assert [arm["endpoint"]["address"] for arm in results["arms"]] == ["10.0.3.7"] * 2
    (verdict,) = results["verdicts"]
    assert "2 pairs in each arm" in verdict["claim"]
    assert "out: towards instance (10.0.3.7)" in verdict["claim"]
    assert (verdict["ceiling"], results["rankings"]) == (None, [])
    page = s3.get_object(Bucket="results", Key=f"runs/{RUN}/report.html")["Body"].read().decode()
    assert "towards instance (10.0.3.7)" in page
    assert "these 4 nodes and instance" in page
