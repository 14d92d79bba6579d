"""Endpoints outside the cluster: which ones a plan may name, and the pairs that nodes make."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.errors import InvalidPlan
from rackrate.plan.check import check_plan
from rackrate.plan.endpoints import NotAllowed, resolve
from rackrate.plan.estimate import estimate
from rackrate.plan.items import block_items, build_schedule, build_warm_up
from rackrate.plan.pairing import Pairing, rounds_of_block, trials_of_block
from rackrate.settings import NO_ENDPOINTS, Endpoints
from rackrate_contract.arms import Endpoint
from tests.unit.builders import TESTS, arm
from tests.unit.builders import plan as plan_of
from tests.unit.samples import ENDPOINTS as STACK
from tests.unit.samples import HOST_SETTINGS

INSTANCE = STACK.instance


def towards(endpoint="instance", name="out", nodes="treatment", **fields):
    return {"name": name, "nodes": nodes, "endpoint": endpoint, **fields}


def check(*arms, endpoints=STACK, tests=("tcp-1",), is_ipv6=False, nodes=2, **fields):
    raw = {"arms": list(arms), "baseline": arms[0]["name"], "tests": list(tests), **fields}
    counts = {"treatment": nodes, "baseline": nodes}
    settings = replace(HOST_SETTINGS, endpoints=endpoints)
    return check_plan(raw, settings, nodes=counts, run_id="r", is_ipv6=is_ipv6)


def fault(*arms, **fields):
    with pytest.raises(InvalidPlan) as caught:
        check(*arms, **fields)
    (only,) = caught.value.faults
    return only


HOST = towards(name="host", client_network="host")


@pytest.mark.parametrize(
    ("written", "name", "address", "port"),
    [
        ("10.0.3.5", "10.0.3.5", "10.0.3.5", None),
        ("10.0.3.5:5201", "10.0.3.5:5201", "10.0.3.5", 5201),
        ("fd00::5", "fd00::5", "fd00::5", None),
        ("[fd00::5]", "fd00::5", "fd00::5", None),
        ("[FD00:0::5]:80", "[fd00::5]:80", "fd00::5", 80),
    ],
)
def test_an_endpoint_is_an_address_with_or_without_a_port(written, name, address, port):
    assert resolve(written, STACK) == Endpoint(name=name, address=address, port=port)


def test_the_stacks_own_instance_is_always_allowed():
    assert resolve("instance", Endpoints((), INSTANCE)) == INSTANCE
    assert INSTANCE.words == "instance (10.0.3.7)"


@given(st.text(max_size=60))
def test_no_text_is_an_endpoint_that_the_stack_does_not_allow(text):
    with pytest.raises(NotAllowed):
        resolve(text, NO_ENDPOINTS)


@pytest.mark.parametrize(
    ("written", "endpoints", "problem", "remedy"),
    [
        ("instance", NO_ENDPOINTS, "no endpoint instance", "EndpointInstance="),
        ("10.0.3.5", NO_ENDPOINTS, "allows no endpoint, not 10.0.3.5", "10.0.3.5/32"),
        ("10.0.4.5:80", STACK, "allows 10.0.3.0/24 or fd00::/8", "AllowedEndpoints"),
        ("db.example.com:5432", STACK, "'db.example.com:5432' is no IP address", "10.0.3.5:5201"),
        ("10.0.3.5:0", STACK, "0 is no port", "65535"),
        ("10.0.3.5:99999", STACK, "99999 is no port", "65535"),
        ("10.0.3.5:", STACK, "no IP address", "instance"),
    ],
)
def test_an_endpoint_that_a_plan_may_not_name_is_refused(written, endpoints, problem, remedy):
    told = fault(HOST | {"endpoint": written}, "baseline", endpoints=endpoints)
    assert told.path == "arms[0].endpoint"
    assert problem in told.problem and remedy in told.remedy


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"arms": [HOST | {"server_network": "host"}]}, "arms[0].server_network"),
        ({"arms": [HOST | {"via": "service"}]}, "arms[0].via"),
        ({"arms": [HOST | {"pairs": "across-zones"}]}, "arms[0].pairs"),
        ({"direction": "both"}, "direction"),
        ({"direction": "reverse"}, "direction"),
        ({"tests": ["tcp-1", "dns"]}, "arms[0].endpoint"),
        ({"tests": ["etcd"]}, "arms[0].endpoint"),
        ({"arms": [HOST | {"endpoint": "fd00::5"}]}, "arms[0].endpoint"),
        (
            {"arms": [HOST | {"endpoint": "10.0.3.5:5201"}], "tests": ["tcp-1", "requests"]},
            "arms[0].endpoint",
        ),
        ({"pairing": {"random": 3}}, "pairing.random"),
    ],
)
def test_what_does_not_go_with_an_endpoint_is_refused_with_its_field(changed, path):
    arms = [*changed.pop("arms", [HOST]), "baseline"]
    told = fault(*arms, **changed)
    assert told.path == path
    assert told.remedy


def test_arms_differ_by_their_endpoint_alone_and_need_one_node():
    plan = check(towards(), towards("10.0.3.5", name="other"), nodes=1, pairing="ring")
    assert [arm.endpoint for arm in plan.arms] == ["instance", "10.0.3.5"]
    assert fault(towards(), towards(name="same")).path == "arms[1]"


def test_one_port_serves_one_tool_and_a_test_without_a_server():
    assert check(HOST | {"endpoint": "10.0.3.5:9"}, "baseline", tests=["tcp-1", "tcp-8", "rtt"])


def test_ipv6_pods_may_have_an_endpoint_of_their_family():
    assert check(HOST | {"endpoint": "[fd00::5]:9"}, "baseline", is_ipv6=True)


def pairs_of(arms, **fields):
    plan = plan_of(tests=TESTS[:1], blocks=1, **fields)
    items = build_schedule(plan, arms)
    assert all(len(item.pairs) == 1 for item in block_items(build_warm_up(plan, arms)))
    return [[(p.arm, p.client, p.server) for p in item.pairs] for item in block_items(items)]


def test_arms_towards_one_endpoint_take_turns_and_the_node_is_the_client():
    arms = [
        arm("treatment", ["t1", "t2"], endpoint=INSTANCE),
        arm("baseline", ["b1", "b2"], endpoint=resolve("10.0.3.7:80", STACK)),
    ]
    rounds = pairs_of(arms, pairing="ring", load="together", direction="alternate")
    assert sorted(rounds) == [
        [("baseline", "b1", "10.0.3.7:80")],
        [("baseline", "b2", "10.0.3.7:80")],
        [("treatment", "t1", "instance")],
        [("treatment", "t2", "instance")],
    ]


def test_arms_towards_different_endpoints_are_measured_at_the_same_time():
    arms = [
        arm("treatment", ["t1"], endpoint=INSTANCE),
        arm("baseline", ["b1"], endpoint=resolve("10.0.3.5", STACK)),
    ]
    assert [len(item.pairs) for item in block_items(build_schedule(plan_of(blocks=1), arms))] == [2]


@pytest.mark.parametrize("pairing", ["one", "ring", "mesh", {"random": 2}])
@pytest.mark.parametrize("load", ["isolated", "together"])
def test_as_many_pairs_are_planned_as_were_checked(pairing, load):
    plan = plan_of(pairing=pairing, tests=TESTS[:1], blocks=1, load=load)
    number = Pairing.of(plan.pairing)
    outside = arm("treatment", ["t1", "t2", "t3"], endpoint=INSTANCE)
    items = block_items(build_schedule(plan, [outside, outside.model_copy(update={"name": "b"})]))
    trials = trials_of_block(number, "alternate", 3, to_endpoint=True)
    assert trials == {"one": 1, "random": 2}.get(number.kind, 3)
    assert len(items) == 2 * rounds_of_block(number, "alternate", load, 3, to_endpoint=True)
    assert sum(len(item.pairs) for item in items) == 2 * trials


def test_the_estimate_counts_the_bytes_of_nodes_alone_and_says_what_it_does_not_know():
    arms = [arm(name, ["n1"], endpoint=INSTANCE) for name in ("treatment", "baseline")]
    plan = plan_of(tests=TESTS[:1], blocks=6)
    schedule = build_schedule(plan, arms)
    told = estimate(plan, schedule, [], arms, pricing=None, region="eu-central-1")
    assert [*told.bytes_per_node] == ["n1"]
    assert any("instance (10.0.3.7)" in each for each in told.cost.not_included)
    few = next(guard for guard in told.guards if guard.guard == "few_pairs")
    assert "instance (10.0.3.7)" in few.text
