"""The counters of nodes' interfaces: read on each node, or noted as not read."""

from __future__ import annotations

import shlex

import pytest

from rackrate.errors import ClusterUnreachable
from rackrate.measure import counters, manifests
from rackrate.measure.cluster import ApiError
from rackrate.measure.counters import Counters
from rackrate.measure.nodes import node_of
from rackrate.stages.run.count import NO_ENA, NOT_ALLOWED, Counted, count
from rackrate_contract.results import Replacement
from tests.unit import builders
from tests.unit.given import Given
from tests.unit.measure.test_counters import TEXT
from tests.unit.measure.test_interfaces import TEXT as CARD
from tests.unit.samples import HOST_SETTINGS, NODES, SETTINGS, node
from tests.unit.stages.runs import RUN, in_cluster

OWNER = f"/api/v1/namespaces/rackrate-host/configmaps/{manifests.owner_name(RUN)}"
NO_DRIVER = CARD["driver-unsupported"]
ALL_NODES = {name for names in NODES.values() for name in names}


@pytest.fixture
def planned(store, cluster):
    """A run with a stored plan and its owner in the host namespace."""
    arms = [builders.arm(name, nodes) for name, nodes in NODES.items()]
    store.runs.put(RUN, "plan.json", builders.planned_run(builders.plan(), arms))
    store.runs.put(RUN, "counters.json", Counters.not_read())
    cluster.create(OWNER.rpartition("/")[0], manifests.owner(RUN, "arn"))
    cluster.on_client = answering(cluster)
    return store


def mtu_of(path):
    """What `cat` prints of an interface's MTU."""
    return "9001\n" if "/ens" in path else f"cat: {path}: No such file or directory\n"


def commands_of(pod):
    """The commands that a pod's shell runs, by name."""
    (container,) = pod["spec"]["containers"]
    shell, option, script = container["command"]
    assert (shell, option) == ("sh", "-c")
    lines = [line.rpartition(" 2>&1; told ") for line in script.splitlines()[1:]]
    return {name: shlex.split(command) for command, _, name in lines}


def answering(cluster, texts=TEXT, names="eks-node", silent=(), without=()):
    """Let pods print the tools' output, except on silent nodes, from an image without programs."""

    def printed(name, command):
        if command[0] in without:
            return f"sh: 3: {command[0]}: not found\n", 127
        if name == "traffic":
            return texts[names], 0
        if name == "mtu":
            return "".join(map(mtu_of, command[1:])), 1
        if command[1] == "--driver":
            return (CARD["driver-ena-upstream"], 0) if command[-1] == "ens5" else (NO_DRIVER, 95)
        if command[1] == "--show-channels":
            return CARD["queues-ena-upstream"], 0
        return (texts["ena"], 0) if command[-1] == "ens5" else (texts["no-statistics"], 94)

    def answer(pod):
        if pod["spec"]["nodeName"] in silent:
            return
        sections = [(name, *printed(name, of)) for name, of in commands_of(pod).items()]
        text = "".join(f"{text}\n== {name} {code}\n" for name, text, code in sections)
        cluster.logs[pod["metadata"]["name"], "counters"] = text
        status = {"name": "counters", "state": {"terminated": {"exitCode": 0}}}
        pod["status"] = {"phase": "Running", "containerStatuses": [status]}

    return answer


def read(store, cluster, when="before"):
    return count(RUN, when, Given(settings=HOST_SETTINGS, cluster=cluster, store=store))


def stored(store):
    return store.runs.read(RUN, "counters.json", Counters)


def test_every_node_is_read_before_and_after_and_further_interfaces_once_more(planned, cluster):
    steps = []
    answer = cluster.on_client

    def noted(pod):
        steps.append([*commands_of(pod).values()])
        answer(pod)

    cluster.on_client = noted
    assert read(planned, cluster) == Counted(nodes=4, note=None)
    assert len(steps) == 8
    assert read(planned, cluster, "after") == Counted(nodes=4, note=None)
    assert len(steps) == 12
    assert steps[-5] == [
        ["cat", "/proc/net/dev"],
        ["cat", "/sys/class/net/ens5/mtu", "/sys/class/net/ens6/mtu"],
        ["ethtool", "--statistics", "ens5"],
        ["ethtool", "--driver", "ens5"],
        ["ethtool", "--show-channels", "ens5"],
        ["ethtool", "--statistics", "ens6"],
        ["ethtool", "--driver", "ens6"],
        ["ethtool", "--show-channels", "ens6"],
    ]
    assert steps[-1] == [
        ["cat", "/proc/net/dev"],
        ["ethtool", "--statistics", "ens5"],
        ["ethtool", "--statistics", "ens6"],
    ]
    counters = stored(planned)
    assert counters.before == counters.after
    assert counters.before.keys() == ALL_NODES
    node = counters.after["node-a"]
    assert node["ens5"]["bw_out_allowance_exceeded"] == 4031
    assert node["ens5"]["rx_bytes"] == 9_000_000
    assert "bw_out_allowance_exceeded" not in node["ens6"]
    assert set(cluster.objects) == {OWNER}, "no pod is left"


def test_what_the_interfaces_are_is_kept_from_the_first_reading(planned, cluster):
    read(planned, cluster)
    read(planned, cluster, "after")
    interfaces = stored(planned).interfaces
    assert interfaces.keys() == ALL_NODES
    card, other = interfaces["node-a"]["ens5"], interfaces["node-a"]["ens6"]
    assert (card.driver, card.driver_version, card.queues, card.mtu) == (
        *("ena", "6.8.0-1044-aws", 4),
        9001,
    )
    assert card.unknown is None
    assert (other.driver, other.mtu) == (None, 9001)
    assert other.unknown == "driver: Cannot get driver information: Operation not supported"


def test_a_node_whose_interface_has_a_usual_name_is_read_in_one_go(planned, cluster):
    lines = [line for line in TEXT["eks-node"].splitlines(keepends=True) if "ens6" not in line]
    answer = answering(cluster, {**TEXT, "one": "".join(lines)}, "one")
    pods = []
    cluster.on_client = lambda pod: (pods.append(pod), answer(pod))
    assert read(planned, cluster) == Counted(nodes=4, note=None)
    assert len(pods) == 4
    assert stored(planned).before["node-a"]["ens5"]["bw_out_allowance_exceeded"] == 4031


def test_pods_are_what_the_guard_of_their_namespace_admits(planned, cluster):
    created = []
    answer = cluster.on_client
    cluster.on_client = lambda pod: (created.append(pod), answer(pod))
    read(planned, cluster)
    for pod in created:
        spec = pod["spec"]
        assert spec["hostNetwork"] is True
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert "sysctls" not in spec["securityContext"]
        assert spec["activeDeadlineSeconds"] <= 30
        assert (
            pod["metadata"]["ownerReferences"][0]["uid"]
            == cluster.objects[OWNER]["metadata"]["uid"]
        )
        for container in spec["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_stack_without_host_networking_reads_nothing_and_says_so(planned):
    for when in ("before", "after"):
        done = count(RUN, when, Given(settings=SETTINGS, store=planned))  # without a cluster
        assert done == Counted(nodes=0, note=NOT_ALLOWED)
    assert stored(planned) == Counters(before={}, after={}, note=NOT_ALLOWED)


def test_a_node_that_does_not_answer_is_named_and_the_others_are_read(planned, cluster):
    cluster.on_client = answering(cluster, silent={"node-b"})
    done = read(planned, cluster)
    assert done.nodes == 3
    assert "node-b (its pod had not ended after 30 s)" in done.note
    cluster.on_client = answering(cluster)
    assert read(planned, cluster, "after").nodes == 4
    counters = stored(planned)
    assert "node-b" not in counters.before and "node-b" in counters.after
    assert "node-b" in counters.note, "what was missing before is not forgotten"


def test_a_node_that_is_not_ready_is_named_and_not_waited_for(planned, cluster):
    in_cluster(cluster, "node-b")["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    placed = []
    answer = answering(cluster)
    cluster.on_client = lambda pod: (placed.append(pod["spec"]["nodeName"]), answer(pod))
    done = read(planned, cluster)
    assert (done.nodes, "node-b" in placed) == (3, False)
    assert "not read before the trials: node node-b is not Ready" in done.note


def test_the_node_in_a_replaced_ones_place_is_read_and_has_no_reading_before(planned, cluster):
    read(planned, cluster)
    planned.runs.start(RUN, "running", "2026-11-23T11:00:00Z")
    cluster.nodes[0] = node("node-x", "ng-1")
    came = Replacement(
        place="node-a",
        arm="treatment",
        lost="node-a",
        why="is gone",
        node=node_of(cluster.nodes[0]),
        block=2,
        at="2026-11-23T12:00:00Z",
    )
    assert planned.runs.replace_nodes(RUN, [came], ())
    done = read(planned, cluster, "after")
    assert done.note == "not read before the trials: node node-x came later"
    counters = stored(planned)
    assert ("node-a" in counters.before, "node-a" in counters.after) == (True, False)
    assert ("node-x" in counters.before, "node-x" in counters.after) == (False, True)


def test_an_image_without_a_shell_is_named_with_what_to_do(planned, cluster):
    def lacking(pod):
        message = 'exec: "sh": executable file not found in $PATH'
        state = {"terminated": {"exitCode": 128, "message": message}}
        statuses = [{"name": c["name"], "state": state} for c in pod["spec"]["containers"]]
        pod["status"] = {"phase": "Failed", "containerStatuses": statuses}

    cluster.on_client = lacking
    done = read(planned, cluster)
    assert done.nodes == 0
    assert "there is no sh in the image example.test/tools:1" in done.note


@pytest.mark.parametrize(("program", "nodes"), [("cat", 0), ("ethtool", 4)])
def test_a_program_that_the_image_lacks_is_named_and_what_others_printed_is_kept(
    planned, cluster, program, nodes
):
    cluster.on_client = answering(cluster, without={program})
    done = read(planned, cluster)
    assert done.nodes == nodes
    assert f"there is no {program} in the image example.test/tools:1" in done.note
    assert '"ToolImage=build"' in done.note


def test_other_network_cards_have_traffic_and_a_note_instead_of_allowances(planned, cluster):
    cluster.on_client = answering(cluster, names="lab-node")
    assert read(planned, cluster) == Counted(nodes=4, note=NO_ENA)
    (interface,) = stored(planned).before["node-a"].values()
    assert interface.keys() == set(counters.traffic(TEXT["lab-node"])["eth0"])


@pytest.mark.parametrize(
    "error", [ClusterUnreachable("no route"), ApiError(422, b"denied by policy")]
)
def test_a_cluster_that_refuses_is_a_note_and_never_a_failure(planned, cluster, error):
    def refuse(pod):
        raise error

    cluster.on_client = refuse
    done = read(planned, cluster)
    assert done.nodes == 0
    assert "not read before the trials" in done.note


def test_a_reading_afterwards_alone_is_kept_and_says_that_the_other_is_missing(planned, cluster):
    done = read(planned, cluster, "after")
    assert done == Counted(nodes=4, note="not read before the trials")
    counters = stored(planned)
    assert (counters.before, counters.after.keys()) == ({}, ALL_NODES)


def test_the_handler_reads(planned, cluster, monkeypatch):
    from handlers import count as handler
    from tests.unit.test_handlers import Context

    given = Given(settings=HOST_SETTINGS, cluster=cluster, store=planned)
    monkeypatch.setattr(handler, "resources", given)
    assert handler.handler({"run_id": RUN, "when": "before"}, Context())["nodes"] == 4
