"""What nodes, pods and people may have written is read or refused, and never breaks a run."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rackrate.foreign import plain
from rackrate.measure.counters import ena, traffic
from rackrate.measure.interfaces import Unreadable, interface
from rackrate.measure.nodes import NETWORK_SCALE_LABEL, is_ready, node_of, untolerated_taints
from rackrate.measure.obstacles import absence
from rackrate.measure.pods import has_started, is_finished, missing_part, outcome
from rackrate.measure.servers import missing_parts, server_addresses, why_waiting
from rackrate.table import from_item, to_item
from tests.unit.samples import DATA, node

#: Text as an object of the API can have it: any characters, also very much of it.
TEXT = st.one_of(st.text(max_size=40), st.builds(lambda text: text * 5000, st.text(max_size=8)))
NET_DEV = (DATA / "counters" / "eks-node.txt").read_text()


@given(st.text(st.characters()), st.integers(2, 300))
def test_any_text_becomes_one_short_line_that_can_be_stored(text, most):
    line = plain(text, most)
    assert len(line) <= most
    assert line.isprintable()
    line.encode()


@given(
    labels=st.dictionaries(
        st.one_of(
            st.just(NETWORK_SCALE_LABEL), st.just("topology.k8s.aws/network-node-layer-1"), TEXT
        ),
        TEXT,
    ),
    info=st.dictionaries(st.sampled_from(["kernelVersion", "osImage", "kubeletVersion"]), TEXT),
    provider=TEXT,
    cpu=st.one_of(TEXT, st.integers(), st.floats().map(str)),
)
def test_a_node_is_read_and_stored_whatever_it_reports_of_itself(labels, info, provider, cpu):
    hostile = node("a", "ng-1", **labels)
    hostile["status"] |= {"nodeInfo": info, "capacity": {"cpu": cpu}}
    hostile["spec"]["providerID"] = provider
    read = node_of(hostile)
    assert len(json.dumps(read.to_json())) < 50_000
    assert from_item(to_item({"node": read.to_json()}))["node"]["name"] == "a"
    assert read.network_scale is None or 0 < read.network_scale <= 1
    is_ready(hostile)
    untolerated_taints(hostile, ())


STATE = st.dictionaries(
    st.sampled_from(["waiting", "running", "terminated"]),
    st.fixed_dictionaries(
        {},
        optional={
            "exitCode": st.integers(-(2**31), 2**31 - 1),
            "reason": TEXT,
            "message": TEXT,
            "startedAt": st.just("2026-11-21T08:00:00Z"),
        },
    ),
    max_size=1,
)
STATUSES = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["rtt", "tcp-1"])}, optional={"state": STATE})
)


@given(
    status=st.fixed_dictionaries(
        {},
        optional={
            "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
            "reason": TEXT,
            "message": TEXT,
            "containerStatuses": STATUSES,
            "initContainerStatuses": STATUSES,
        },
    )
)
def test_every_status_of_a_pod_has_an_outcome(status):
    containers = [{"name": "rtt", "image": "tools", "command": ["ping"]}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": containers}, "status": status}
    is_finished(pod)
    missing_part(pod, "rtt")
    assert outcome(pod, "rtt").started in (True, False)


def without(thing, kept=("name", "type", "status", "key", "effect", "metadata")):
    """An object with some parts left out that the API lets an object be without."""
    if isinstance(thing, dict):
        parts = {name: without(each) for name, each in thing.items()}
        must = {name: each for name, each in parts.items() if name in kept}
        return st.fixed_dictionaries(
            must, optional={name: each for name, each in parts.items() if name not in kept}
        )
    if isinstance(thing, list):
        return st.lists(st.one_of(*map(without, thing)), max_size=3) if thing else st.just([])
    return st.just(thing) | TEXT if isinstance(thing, str) else st.just(thing)


FULL_NODE = node("a", "ng-1", **{NETWORK_SCALE_LABEL: "0.1"})
FULL_NODE["spec"] |= {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
FULL_NODE["spec"] |= {"unschedulable": True}
FULL_NODE["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
FULL_NODE["status"]["capacity"] = {"cpu": "2"}
FULL_NODE["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-23T12:00:00Z"


@given(without(FULL_NODE))
def test_a_node_is_read_whatever_it_lacks(node):
    node_of(node).to_json()
    is_ready(node)
    untolerated_taints(node, ())
    absence("a", {"a": node})


FULL_STATUS = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource",
    "podIP": "10.0.0.7",
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
    ],
    "containerStatuses": [
        {
            "name": "rtt",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "x: not found"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m"}},
        }
    ],
}


@given(without(FULL_STATUS), st.booleans())
def test_a_pod_is_read_whatever_its_status_lacks(status, leaving):
    container = {"name": "rtt", "image": "tools", "command": ["ping"]}
    pod = {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-23T12:00:00Z"},
        "spec": {"containers": [container], "nodeName": "a"},
        "status": status,
    }
    pod["metadata"] |= {"deletionTimestamp": "2026-11-23T12:00:00Z"} if leaving else {}
    assert outcome(pod, "rtt").failure is None or len(outcome(pod, "rtt").failure) < 20_000
    is_finished(pod)
    has_started(pod)
    server_addresses([pod])
    why_waiting([pod])
    missing_parts([pod])


@given(st.integers(0, len(NET_DEV)), st.integers(0, 200), TEXT)
def test_counters_are_read_or_unreadable(at, length, text):
    changed = NET_DEV[:at] + text + NET_DEV[at + length :]
    try:
        counters = traffic(changed)
    except Unreadable as error:
        assert len(str(error)) < 1000
        return
    assert all(0 <= count < 10**20 for counts in counters.values() for count in counts.values())


@given(TEXT, TEXT)
def test_what_an_interface_prints_is_short(driver, queues):
    assert all(0 <= count < 10**20 for count in ena(driver).values())
    card = interface(f"driver: {driver}\nversion: {driver}", queues, 1500)
    assert len(json.dumps(card.to_json())) < 10_000
