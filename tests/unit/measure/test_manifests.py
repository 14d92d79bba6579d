"""The Kubernetes objects: restricted, with an owner, and with exactly the tests in order."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import pytest

from rackrate.measure import manifests
from rackrate.measure.starts import Start, agreed, awaited
from rackrate.plan.items import BlockItem, Pair
from rackrate.registry import load_test
from rackrate.tools.base import Port, Server
from rackrate_contract.selectors import parse_tolerations
from tests.unit.samples import ARMS

PAIR = Pair(
    arm="treatment",
    client="node-a",
    server="node-b",
    client_network="pod",
    server_network="pod",
)
TESTS = [
    load_test({"name": "rtt", "tool": "ping", "count": 16, "interval_seconds": 0.2}),
    load_test({"name": "tcp-8", "tool": "iperf3", "streams": 8, "seconds": 3}),
    load_test({"name": "tcp-1", "tool": "iperf3", "seconds": 3}),
]


ITEM = BlockItem(
    progress="block 3 of 6",
    block=3,
    blocks=6,
    round=1,
    rounds=1,
    warm_up=False,
    tests=tuple(TESTS),
    pairs=(PAIR,),
)


TOLERATED = parse_tolerations("dedicated=bench:NoSchedule")


def client(tests=TESTS, run_id="run-1", attempt=1, starts=None, **pair):
    chosen = PAIR.model_copy(update=pair)
    clients = manifests.Clients(
        ITEM,
        attempt,
        image="tools:1",
        tolerations=TOLERATED,
        starts=starts or {},
        deadline_seconds=60,
    )
    return clients.pod(
        chosen,
        {ITEM.container(test): test for test in tests},
        owner=manifests.Owner(run_id, "uid-1"),
        node=chosen.client,
        server_address="10.0.0.9",
        members=(),
    )


def servers(tests=TESTS, network="pod", stack_arm="treatment"):
    return manifests.servers(
        owner=manifests.Owner("run-1", "uid-1"),
        nodes=next(each for each in ARMS if each.name == stack_arm),
        network=network,
        tests=tests,
        image="tools:1",
        tolerations=TOLERATED,
    )


def holder(number=1, stack_arm=ARMS[0]):
    return manifests.holder(
        owner=manifests.Owner("run-1", "uid-1"),
        arm=stack_arm,
        number=number,
        image="tools:1",
        tolerations=TOLERATED,
    )


def pod_specs(network="pod"):
    server = servers(network=network)["spec"]["template"]["spec"]
    return [client(client_network=network)["spec"], server]


ALL_PODS = pytest.mark.parametrize(
    "spec",
    [*pod_specs("pod"), *pod_specs("host"), holder()["spec"]],
    ids=["client", "server", "host client", "host server", "holder"],
)


def containers_of(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


@ALL_PODS
def test_pods_are_as_restricted_as_the_pod_security_standard_wants(spec):
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    safe = {"net.ipv4.ping_group_range"}  # of the standard's list of safe sysctls
    assert {sysctl["name"] for sysctl in security.get("sysctls", [])} <= safe
    assert not {"hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) == {"name", "emptyDir"} for volume in spec["volumes"])
    for container in containers_of(spec):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert own["readOnlyRootFilesystem"] is True


def test_only_what_measures_from_the_nodes_network_uses_it():
    assert [spec.get("hostNetwork") for spec in pod_specs("pod")] == [None, None]
    assert [spec.get("hostNetwork") for spec in pod_specs("host")] == [True, True]
    assert "hostNetwork" not in client(server_network="host")["spec"]


def test_a_pod_in_the_nodes_network_sets_no_sysctls_which_kubernetes_would_refuse():
    assert client(TESTS[:1])["spec"]["securityContext"]["sysctls"]
    assert "sysctls" not in client(TESTS[:1], client_network="host")["spec"]["securityContext"]


@ALL_PODS
def test_pods_know_nothing_of_the_cluster_and_end_at_once(spec):
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["terminationGracePeriodSeconds"] == 1


@ALL_PODS
def test_nothing_throttles_the_processor(spec):
    for container in containers_of(spec):
        assert "cpu" not in container["resources"]["limits"]


def test_a_client_has_a_container_for_each_test_which_waits_for_its_time():
    names = [ITEM.container(test) for test in TESTS]
    starts = {name: Start(at, at + 9) for at, name in enumerate(names)}
    pod = client(starts=starts)
    containers = pod["spec"]["containers"]
    assert [container["name"] for container in containers] == ["rtt-3-1", "tcp-8-3-1", "tcp-1-3-1"]
    for container, test in zip(containers, TESTS, strict=True):
        assert container["command"][3] == "{},{}".format(*starts[container["name"]])
        assert awaited(container["command"]) == test.argv("10.0.0.9")
    assert agreed(pod) == {name: start.at for name, start in starts.items()}
    assert pod["spec"]["initContainers"] == []


def test_containers_that_run_in_turn_reserve_together_what_one_needs():
    requests = [each["resources"]["requests"] for each in client()["spec"]["containers"]]
    assert requests == [{"cpu": "33m", "memory": "21Mi"}] * 3


def test_only_pods_that_ping_ask_for_the_sysctl():
    assert "sysctls" not in client(TESTS[1:])["spec"]["securityContext"]


def test_kubernetes_stops_a_client_after_its_tests_should_have_ended():
    spec = client()["spec"]
    assert spec["activeDeadlineSeconds"] == 60
    assert spec["restartPolicy"] == "Never"
    assert spec["nodeName"] == "node-a"


def test_a_probe_tells_that_the_server_listens_but_never_disturbs_a_measurement():
    (container,) = servers()["spec"]["template"]["spec"]["containers"]
    assert container["startupProbe"]["tcpSocket"] == {"port": 5201}
    assert not {"readinessProbe", "livenessProbe"} & set(container)


def serving(*needed):
    """Make tests that need these servers."""
    return [SimpleNamespace(server=server) for server in needed]


TCP = Server("one", ("one", "--server"), (Port(5001),))
UDP = Server("two", ("two", "--server", "--udp"), (Port(5001, "UDP"),))


@pytest.mark.parametrize("tests", [*itertools.permutations([TCP, UDP, None, TCP])])
def test_each_distinct_server_runs_once_and_the_order_of_tests_does_not_matter(tests):
    one, two = servers(serving(*tests))["spec"]["template"]["spec"]["containers"]
    assert [one["command"], two["command"]] == [list(TCP.argv), list(UDP.argv)]
    assert one["ports"] == [{"containerPort": 5001, "protocol": "TCP"}]
    assert two["ports"] == [{"containerPort": 5001, "protocol": "UDP"}]


def test_a_udp_server_has_no_probe_because_nothing_could_answer_it():
    one, two = servers(serving(TCP, UDP))["spec"]["template"]["spec"]["containers"]
    assert "startupProbe" in one and "startupProbe" not in two


def test_there_is_a_pod_to_ping_where_no_test_needs_a_server():
    (container,) = servers(TESTS[:1])["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == "sleep"
    assert container["ports"] == [] and "startupProbe" not in container


def test_a_server_of_several_ports_claims_them_all_and_is_probed_at_a_tcp_one():
    server = Server("two", ("two",), (Port(1, "UDP"), Port(2), Port(3)))
    (container,) = servers(serving(server))["spec"]["template"]["spec"]["containers"]
    assert [each["containerPort"] for each in container["ports"]] == [1, 2, 3]
    assert container["startupProbe"]["tcpSocket"] == {"port": 2}


def test_two_servers_that_want_one_name_are_refused_before_kubernetes_does():
    other = Server("one", ("one", "--server", "--other"), (Port(5002),))
    with pytest.raises(ValueError, match="same name"):
        servers(serving(TCP, other))


@pytest.mark.parametrize(
    ("address", "kind"), [("10.0.0.9", "IPv4"), ("2001:db8::a00:100:0:3", "IPv6")]
)
def test_the_endpoint_of_a_service_is_of_its_servers_address_family(address, kind):
    front = manifests.Front(manifests.Owner("run-1", "uid-1"), [Port(5201)])
    slice_ = front.endpoint_slice("node-a", address)
    assert (slice_["addressType"], slice_["endpoints"][0]["addresses"]) == (kind, [address])


def test_servers_of_the_same_nodes_in_two_networks_do_not_collide():
    manifests = [servers(), servers(network="host"), servers(stack_arm="baseline")]
    assert len({thing["metadata"]["name"] for thing in manifests}) == 3
    assert len({str(thing["spec"]["selector"]) for thing in manifests}) == 3


def test_servers_run_on_the_nodes_of_their_arm():
    affinity = servers()["spec"]["template"]["spec"]["affinity"]
    assert affinity == ARMS[0].selector.affinity
    labels = servers()["spec"]["selector"]["matchLabels"]
    assert labels == servers()["spec"]["template"]["metadata"]["labels"]
    assert labels[manifests.ARM] == "treatment"


def test_everything_belongs_to_the_owner():
    owner = manifests.owner("run-1", "arn:aws:states:::execution")
    for thing in (client(), servers()):
        (reference,) = thing["metadata"]["ownerReferences"]
        assert reference["name"] == owner["metadata"]["name"]
        assert (reference["kind"], reference["uid"]) == (owner["kind"], "uid-1")
        assert thing["metadata"]["labels"][manifests.RUN] == "run-1"


def test_names_of_pods_differ_between_attempts_runs_pairs_and_arms_of_the_same_nodes():
    names = {
        client()["metadata"]["name"],
        client(attempt=2)["metadata"]["name"],
        client(run_id="run-2")["metadata"]["name"],
        client(arm="host")["metadata"]["name"],
        client(client="node-b", server="node-a")["metadata"]["name"],
    }
    assert len(names) == 5


@pytest.mark.parametrize("run_id", ["r", "a" * 80, "with space", "-x-", "ünïcode", "2026.11_a"])
def test_any_execution_name_makes_valid_names_and_labels(run_id):
    pod = client(run_id=run_id)["metadata"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", pod["name"])
    for value in pod["labels"].values():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_every_pod_asks_for_linux_tolerates_the_taints_and_holds_its_node():
    template = servers()["spec"]["template"]
    for pod in (client(), template, holder()):
        assert pod["spec"]["tolerations"] == [each.manifest for each in TOLERATED]
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        notes = pod["metadata"]["annotations"]
        assert notes["karpenter.sh/do-not-disrupt"] == "true"
        assert notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_holders_of_an_arm_take_one_node_each_of_its_own():
    first, second, other = holder(1), holder(2), holder(1, ARMS[1])
    affinity = first["spec"]["affinity"]
    assert affinity["nodeAffinity"] == ARMS[0].selector.affinity["nodeAffinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (apart,) = affinity["podAntiAffinity"][required]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    labels = apart["labelSelector"]["matchLabels"].items()
    assert labels <= second["metadata"]["labels"].items()
    assert not labels <= other["metadata"]["labels"].items()
    names = {each["metadata"]["name"] for each in (first, second, other)}
    assert len(names) == 3
