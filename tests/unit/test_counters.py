"""What the interfaces of nodes count: read from text, on every node, or noted as not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import ApiException

from rackrate import counters, manifests
from rackrate.counters import ALLOWANCES, Unreadable, allowances, traffic
from rackrate.errors import ClusterUnreachable
from rackrate.stages.counting import NO_ENA, NOT_ALLOWED, count, not_read_before
from tests.unit.samples import DATA, HOST_SETTINGS, NODES, SETTINGS

RUN = "run-1"
TEXT = {path.stem: path.read_text() for path in (DATA / "counters").glob("*.txt")}
OWNER = f"/api/v1/namespaces/rackrate-host/configmaps/{manifests.owner_name(RUN)}"
ALL_NODES = {name for names in NODES.values() for name in names}


# -- texts


def test_only_interfaces_that_leave_the_node_count():
    assert traffic(TEXT["eks-node"]) == {
        "ens5": {
            "rx_bytes": 9_000_000,
            "rx_packets": 7001,
            "rx_dropped": 3,
            "tx_bytes": 2**64 - 1,
            "tx_packets": 8002,
            "tx_dropped": 4,
        },
        "ens6": {
            "rx_bytes": 84,
            "rx_packets": 2,
            "rx_dropped": 0,
            "tx_bytes": 42,
            "tx_packets": 1,
            "tx_dropped": 0,
        },
    }
    assert list(traffic(TEXT["lab-node"])) == ["eth0"]


@pytest.mark.parametrize(
    "name",
    [
        *("lo", "eni1a2b3c4d5e6", "veth12ab", "cali0123", "cni0", "dummy0", "vlan.eth.1"),
        *("kube-ipvs0", "nodelocaldns", "docker0", "br-0a1b", "cilium_host", "lxc12", "flannel.1"),
        *("tun0", "ifb0", "pod-id-link0"),
    ],
)
def test_what_leads_to_pods_or_nowhere_is_left_out(name):
    assert traffic(TEXT["eks-node"].replace("ens6", name)).keys() == {"ens5"}


@pytest.mark.parametrize("name", ["eth0", "eth1", "ens5", "ens160", "enp39s0", "bond0", "eni5"])
def test_what_may_be_a_card_is_kept(name):
    assert traffic(TEXT["eks-node"].replace("ens6", name)).keys() == {"ens5", name}


def test_ena_tells_what_it_held_back():
    assert allowances(TEXT["ena"]) == dict(zip(ALLOWANCES, (12, 4031, 7, 0, 1), strict=True))


@pytest.mark.parametrize("name", ["veth", "no-statistics", "no-such-device"])
def test_what_is_not_ena_has_no_allowances_and_not_zero_of_them(name):
    assert allowances(TEXT[name]) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat: /proc/net/dev: Permission denied",
        TEXT["eks-node"][:400],
        TEXT["eks-node"].replace("9000000", "many"),
        TEXT["eks-node"].replace("9000000", "-9"),
        TEXT["eks-node"].replace("9000000", "9" * 5000),
        TEXT["veth"],
    ],
)
def test_a_text_that_is_something_else_is_refused(text):
    with pytest.raises(Unreadable):
        traffic(text)


lines = st.lists(
    st.one_of(st.sampled_from(sorted(TEXT.values())), st.text(max_size=60)), max_size=4
)


@given(lines)
def test_the_readers_raise_nothing_but_their_own_error_and_invent_no_number(parts):
    text = "\n".join(parts)
    try:
        found = list(traffic(text).values())
    except Unreadable:
        found = []
    for counts in [*found, allowances(text)]:
        assert all(str(value) in text for value in counts.values())


@given(st.dictionaries(st.sampled_from(ALLOWANCES), st.integers(0, 2**64 - 1)))
def test_every_allowance_that_is_printed_is_read(values):
    text = "NIC statistics:\n" + "".join(f"     {name}: {n}\n" for name, n in values.items())
    assert allowances(text) == values


# -- nodes


@pytest.fixture
def planned(store, cluster):
    """A run whose plan is stored, and whose owner is in the host namespace."""
    arms = [{"nodes": [{"name": name} for name in names]} for names in NODES.values()]
    store.put_json(RUN, "plan.json", {"arms": arms})
    store.put_json(RUN, "counters.json", not_read_before())
    cluster.create(OWNER.rpartition("/")[0], manifests.owner(RUN, "arn"))
    cluster.on_client = answering(cluster)
    return store


def answering(cluster, texts=TEXT, names="eks-node", silent=()):
    """Pods that print what the tools print, but on silent nodes."""

    def answer(pod):
        if pod["spec"]["nodeName"] in silent:
            return
        statuses = []
        for container in pod["spec"]["containers"]:
            command = container["command"]
            if command[0] == "cat":
                text = texts[names]
            else:
                text = texts["ena"] if command[-1] == "ens5" else texts["no-statistics"]
            cluster.logs[pod["metadata"]["name"], container["name"]] = text
            statuses.append({"name": container["name"], "state": {"terminated": {"exitCode": 0}}})
        pod["status"] = {"phase": "Running", "containerStatuses": statuses}

    return answer


def read(store, cluster, when="before", settings=HOST_SETTINGS):
    return count(RUN, when, settings=settings, connect=lambda: cluster, store=store)


def test_every_node_is_read_before_and_after_and_further_interfaces_once_more(planned, cluster):
    steps = []
    answer = cluster.on_client

    def noted(pod):
        steps.append([c["command"] for c in pod["spec"]["containers"]])
        answer(pod)

    cluster.on_client = noted
    assert read(planned, cluster) == {"nodes": 4, "note": None}
    assert len(steps) == 8
    assert read(planned, cluster, "after") == {"nodes": 4, "note": None}
    assert len(steps) == 12
    assert steps[-1] == [
        ["cat", "/proc/net/dev"],
        ["ethtool", "--statistics", "ens5"],
        ["ethtool", "--statistics", "ens6"],
    ]
    stored = planned.get_json(RUN, "counters.json")
    assert stored["before"] == stored["after"]
    assert stored["before"].keys() == ALL_NODES
    node = stored["after"]["node-a"]
    assert node["ens5"]["bw_out_allowance_exceeded"] == 4031
    assert node["ens5"]["rx_bytes"] == 9_000_000
    assert "bw_out_allowance_exceeded" not in node["ens6"]
    assert set(cluster.objects) == {OWNER}, "no pod is left"


def test_a_node_whose_interface_has_a_usual_name_is_read_in_one_go(planned, cluster):
    lines = [line for line in TEXT["eks-node"].splitlines(keepends=True) if "ens6" not in line]
    answer = answering(cluster, {**TEXT, "one": "".join(lines)}, "one")
    pods = []
    cluster.on_client = lambda pod: (pods.append(pod), answer(pod))
    assert read(planned, cluster) == {"nodes": 4, "note": None}
    assert len(pods) == 4
    stored = planned.get_json(RUN, "counters.json")
    assert stored["before"]["node-a"]["ens5"]["bw_out_allowance_exceeded"] == 4031


def test_pods_are_what_the_guard_of_their_namespace_admits(planned, cluster):
    made = []
    answer = cluster.on_client
    cluster.on_client = lambda pod: (made.append(pod), answer(pod))
    read(planned, cluster)
    for pod in made:
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
    def connect():
        raise AssertionError("nobody asks the cluster")

    for when in ("before", "after"):
        done = count(RUN, when, settings=SETTINGS, connect=connect, store=planned)
        assert done == {"nodes": 0, "note": NOT_ALLOWED}
    assert planned.get_json(RUN, "counters.json") == {
        "before": {},
        "after": {},
        "note": NOT_ALLOWED,
    }


def test_a_node_that_does_not_answer_is_named_and_the_others_are_read(planned, cluster):
    cluster.on_client = answering(cluster, silent={"node-b"})
    done = read(planned, cluster)
    assert done["nodes"] == 3
    assert "node-b (its pod had not ended after 30 s)" in done["note"]
    cluster.on_client = answering(cluster)
    assert read(planned, cluster, "after")["nodes"] == 4
    stored = planned.get_json(RUN, "counters.json")
    assert "node-b" not in stored["before"] and "node-b" in stored["after"]
    assert "node-b" in stored["note"], "what was missing before is not forgotten"


def test_an_image_without_the_tool_is_named_with_what_to_do(planned, cluster):
    def lacking(pod):
        message = 'exec: "cat": executable file not found in $PATH'
        state = {"terminated": {"exitCode": 128, "message": message}}
        statuses = [{"name": c["name"], "state": state} for c in pod["spec"]["containers"]]
        pod["status"] = {"phase": "Failed", "containerStatuses": statuses}

    cluster.on_client = lacking
    done = read(planned, cluster)
    assert done["nodes"] == 0
    assert "there is no cat in the image example.test/tools:1" in done["note"]


def test_other_network_cards_have_traffic_and_a_note_instead_of_allowances(planned, cluster):
    cluster.on_client = answering(cluster, names="lab-node")
    assert read(planned, cluster) == {"nodes": 4, "note": NO_ENA}
    (interface,) = planned.get_json(RUN, "counters.json")["before"]["node-a"].values()
    assert interface.keys() == set(counters.traffic(TEXT["lab-node"])["eth0"])


@pytest.mark.parametrize(
    "error", [ClusterUnreachable("no route"), ApiException(status=422, reason="denied by policy")]
)
def test_a_cluster_that_refuses_is_a_note_and_never_a_failure(planned, cluster, error):
    def refuse(pod):
        raise error

    cluster.on_client = refuse
    done = read(planned, cluster)
    assert done["nodes"] == 0
    assert "not read before the trials" in done["note"]


def test_a_reading_afterwards_alone_is_kept_and_says_that_the_other_is_missing(planned, cluster):
    done = read(planned, cluster, "after")
    assert done == {"nodes": 4, "note": "not read before the trials"}
    stored = planned.get_json(RUN, "counters.json")
    assert (stored["before"], stored["after"].keys()) == ({}, ALL_NODES)


def test_the_handler_reads(planned, cluster, monkeypatch):
    from handlers import counters as handler
    from tests.unit.test_handlers import Context

    for name, value in (("cluster", cluster), ("settings", HOST_SETTINGS), ("store", planned)):
        monkeypatch.setattr(handler, name, lambda value=value: value)
    assert handler.handler({"run_id": RUN, "when": "before"}, Context())["nodes"] == 4
