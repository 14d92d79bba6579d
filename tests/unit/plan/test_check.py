"""The check of plans: `{}` is valid, and all mistakes are reported with paths and remedies."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.errors import InvalidPlan
from rackrate.plan.check import check_plan, ipv6_faults
from rackrate.plan.faults import MAX_PLAN_BYTES, Faults, check_name
from rackrate.plan.fields import Blocks, PlanInput
from rackrate.plan.model import Plan
from rackrate.settings import StackArm
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB
from rackrate_contract.selectors import Selector
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.samples import ARMS, HOST_SETTINGS, SETTINGS

NODES = {"treatment": 2, "baseline": 2}


def check(raw, nodes=NODES, run_id="r", settings=HOST_SETTINGS, **options):
    return check_plan(raw, settings, nodes=nodes, run_id=run_id, **options)


def of_images(image, *allowed):
    return replace(HOST_SETTINGS, tool_image=image, allowed_images=allowed)


def faults(raw, nodes=NODES, **options):
    with pytest.raises(InvalidPlan) as caught:
        check(raw, nodes, **options)
    lines = str(caught.value).splitlines()
    assert all(re.fullmatch(r"\S+: .+; .+", line) for line in lines), lines
    refused = {}
    for line in lines:
        path = line.partition(": ")[0]
        refused[path] = f"{refused.get(path, '')}{line}\n"
    return refused


def test_a_comparison_is_sent_to_its_own_state_machine():
    told = faults({"compare": {"run": "a", "with": "b"}})
    assert "ComparisonStateMachineArn" in told["compare"]


def test_every_field_that_a_user_gives_is_kept_in_the_plan():
    """A field of the input alone would be documented, accepted and lost."""
    assert PlanInput.model_fields.keys() - {"json_schema"} == Plan.model_fields.keys()


def test_an_empty_plan_is_the_documented_default():
    plan = check({})
    assert [arm.name for arm in plan.arms] == ["treatment", "baseline"]
    assert plan.baseline == "baseline"
    assert [(t.name, t.tool, t.expected_seconds) for t in plan.tests] == [
        ("requests", "fortio", 3.0),
        ("requests-loaded", "fortio", 4.0),
        ("tcp-1", "iperf3", 3.0),
        ("tcp-8", "iperf3", 3.0),
    ]
    assert (plan.blocks, plan.pause_seconds) == (Blocks(least=6, most=12), 0)
    assert (plan.pairing, plan.threshold, plan.tolerated_loss) == ("one", 0.05, 0.1)
    assert (plan.direction, plan.load, plan.warm_up) == ("alternate", "isolated", True)
    assert {(arm.client_network, arm.server_network) for arm in plan.arms} == {("pod", "pod")}


@pytest.mark.parametrize(
    ("raw", "path", "near"),
    [
        ({"blocs": 6}, "blocs", "blocks"),
        ({"Threshold": 0.1}, "Threshold", "threshold"),
        ({"blocks": {"leest": 6, "most": 7}}, "blocks.leest", "least"),
        ({"pairing": {"randm": 2}}, "pairing.randm", "random"),
        ({"arms": ["baseline", {"name": "x", "node": "baseline"}]}, "arms[1].node", "nodes"),
        ({"tests": ["tcp1"]}, "tests[0]", "tcp-1"),
        ({"tests": [{"nmae": "tcp-1"}]}, "tests[0].nmae", "name"),
        ({"tests": [{"name": "x", "tol": "iperf3"}]}, "tests[0].tol", "tool"),
        (
            {"tests": [{"name": "etcd", "storage": {"storge_class": "gp3", "gib": 9}}]},
            "tests[0].storage.storge_class",
            "storage_class",
        ),
        ({"tests": [{"name": "x", "tool": "iperf_3"}]}, "tests[0].tool", "iperf3"),
        ({"tests": [{"name": "tcp-1", "stream": 2}]}, "tests[0].stream", "streams"),
        ({"tests": [{"name": "tcp1", "streams": 2}]}, "tests[0].tool", "tcp-1"),
        ({"arms": ["treatment", "baselin"]}, "arms[1]", "baseline"),
        ({"arms": ["baseline", {"name": "x", "nodes": "traetment"}]}, "arms[1].nodes", "treatment"),
        ({"baseline": "base-line"}, "baseline", "baseline"),
    ],
)
def test_a_misspelt_name_is_told_with_the_nearest_right_one(raw, path, near):
    assert f"(did you mean {near}?)" in faults(raw)[path]


def test_a_name_that_is_near_none_suggests_none():
    assert "did you mean" not in faults({"colour": 1})["colour"]


def test_the_demo_plan_is_valid_and_takes_three_seconds_a_test():
    plan = check(json.loads((ROOT / "docs" / "plans" / "demo.json").read_text()))
    assert [round(test.expected_seconds) for test in plan.tests] == [3, 3, 3]
    assert plan.blocks == Blocks(least=6, most=12)


def test_a_number_of_blocks_is_the_least_and_the_most_and_is_stored_as_a_number():
    plan = check({"blocks": 7})
    assert plan.blocks == Blocks(least=7, most=7)
    assert plan.to_json()["blocks"] == 7
    assert Plan.from_json(plan.to_json()) == plan


def test_a_least_and_a_most_number_of_blocks_are_stored_as_they_are():
    plan = check({"blocks": {"least": 4, "most": 24}})
    assert plan.to_json()["blocks"] == {"least": 4, "most": 24}
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_of_an_earlier_release_is_read():
    stored = check({"blocks": 6}).to_json()
    del stored["pause_seconds"]
    assert Plan.from_json(stored) == check({"blocks": 6})


SOCKPERF = {"name": "quick", "tool": "sockperf"}
NETSHOOT = "docker.io/nicolaka/netshoot"
DEFAULT_IMAGE = load(ROOT / "template.yaml")["Parameters"]["ToolImage"]["Default"]


@pytest.mark.parametrize(
    "image",
    [NETSHOOT, f"{NETSHOOT}:v0.13", f"{NETSHOOT}:v1@sha256:{'a' * 64}", DEFAULT_IMAGE],
)
def test_a_test_whose_program_the_image_lacks_is_refused_with_the_parameter_to_set(image):
    with pytest.raises(InvalidPlan) as caught:
        check({"tests": ["rtt", SOCKPERF]}, settings=of_images(image))
    (fault,) = caught.value.faults
    assert fault.path == "tests[1]"
    assert "sockperf" in fault.problem and image in fault.problem
    assert "ToolImage=build" in fault.remedy


def test_a_tool_that_takes_no_ipv6_addresses_is_refused_in_a_cluster_of_them():
    plan = {"tests": ["udp-1", SOCKPERF, "tcp-1", "iperf2-32", "tcp-rr", "requests", "cassandra"]}
    assert len(check({"tests": plan["tests"][:-1]}).tests) == 6
    with pytest.raises(InvalidPlan) as caught:
        check(plan, is_ipv6=True)
    quick, cassandra = caught.value.faults
    assert (quick.path, cassandra.path) == ("tests[1]", "tests[6]")
    assert "IPv6" in quick.problem and "sockperf" in quick.problem and "fortio" in quick.remedy
    assert "cassandra" in cassandra.problem and "leave" in cassandra.remedy
    # Those that run in the lab's cluster of IPv6.
    assert ipv6_faults({"tests": ["rtt", "dns"]}) == []
    assert check({}, is_ipv6=True).tests == check({}).tests


OWN, OTHER = (f"registry.corp/etcd@sha256:{digit * 64}" for digit in "ab")


@pytest.mark.parametrize("field", ["image", "load_image"])
def test_a_plan_may_ask_only_for_images_that_its_stack_allows(field):
    etcd = {"name": "etcd", "tool": "etcd", "members": 1}
    plan = {"tests": ["rtt", {**etcd, field: OTHER}]}
    for allowed in ((), (OWN,), (OTHER.partition("@")[0],)):
        (line,) = faults(plan, settings=of_images(OWN, *allowed)).values()
        assert line.startswith(f"tests[1].{field}: ") and "AllowedImages" in line
    assert getattr(check(plan, settings=of_images("", OWN, OTHER)).tests[1], field) == OTHER
    # The stack's own image needs no permission.
    assert getattr(check(plan, settings=of_images(OTHER)).tests[1], field) == OTHER


def of_volumes(*each):
    """A plan of workloads with volumes, each with so many members and GiB."""
    tests = [
        {"name": f"db-{n}", "tool": "cassandra", "members": members, "replicas": 1}
        | {"storage": {"storage_class": "gp3", "gib": gib}}
        for n, (members, gib) in enumerate(each)
    ]
    return {"tests": tests, "blocks": 1}


def test_the_volumes_of_a_plan_are_bounded_together_in_number_and_size():
    nodes = {"treatment": 1001, "baseline": 1001}
    half = MAX_VOLUMES_GIB // 2
    for fits in ([(1, half)], [(1, half - 1), (1, 1)], [(MAX_VOLUMES // 2, 1)]):
        assert check(of_volumes(*fits), nodes)
    for too_much, path in (
        ([(1, half + 1)], "tests[0].storage.gib"),
        ([(2, half)], "tests[0].storage.gib"),
        ([(1, half), (1, 1)], "tests[1].storage.gib"),
        ([(MAX_VOLUMES // 2, 1), (1, 1)], "tests[1].members"),
    ):
        assert [*faults(of_volumes(*too_much), nodes)] == [path]


@pytest.mark.parametrize("image", ["", "registry.corp:5000/netshoot", "registry.corp/tools:1"])
def test_an_image_whose_programs_nobody_knows_may_have_all(image):
    assert len(check({"tests": ["rtt", SOCKPERF]}, settings=of_images(image)).tests) == 2


@pytest.mark.parametrize(
    ("blocks", "path"),
    [
        ({"least": 0, "most": 6}, "blocks.least"),
        ({"least": 6, "most": 1001}, "blocks.most"),
        ({"least": 7, "most": 6}, "blocks.most"),
        ({"least": 6.5, "most": 12}, "blocks.least"),
        ({"least": 6}, "blocks.most"),
        ({"most": 6}, "blocks.least"),
        ({"least": 6, "most": 12, "best": 8}, "blocks.best"),
        (None, "blocks"),
        ([6, 12], "blocks"),
    ],
)
def test_wrong_blocks_are_named_by_the_end_that_is_wrong(blocks, path):
    with pytest.raises(InvalidPlan) as caught:
        check({"blocks": blocks})
    (fault,) = caught.value.faults
    assert fault.path == path
    assert fault.remedy


def test_pauses_count_towards_the_time_that_a_plan_may_take():
    check({"pause_seconds": 3600, "blocks": 24})
    with pytest.raises(InvalidPlan) as caught:
        check({"pause_seconds": 3600, "blocks": {"least": 6, "most": 26}})
    assert [fault.path for fault in caught.value.faults] == ["blocks"]
    assert "shorter pauses" in str(caught.value)


def test_a_plan_without_a_seed_gets_the_same_one_when_planned_again():
    assert check({}, run_id="a").seed == check({}, run_id="a").seed
    assert check({}, run_id="a").seed != check({}, run_id="b").seed


@pytest.mark.parametrize(
    "raw",
    [
        {"tests": [{"name": "tcp-1", "seconds": 3}], "seed": 5},
        {"pairing": {"random": 1}, "direction": "both", "load": "together", "warm_up": False},
        {"arms": [{"name": "host", "nodes": "treatment", "client_network": "host"}, "baseline"]},
        {"compare_with": "earlier", "dry_run": True},
        {"compare_with": ["earlier", "main"]},
        {"compare_with": []},
    ],
    ids=str,
)
def test_a_normalised_plan_is_a_plan_that_says_the_same(raw):
    plan = check(raw)
    assert check(plan.to_json(), run_id="another" if plan.seed == 5 else "r") == plan
    assert Plan.from_json(json.dumps(plan.to_json())) == plan


def test_a_catalogue_test_may_be_changed_and_a_new_one_added():
    plan = check(
        {
            "tests": [
                {"name": "tcp-1", "seconds": 3},
                {"name": "tcp-4", "tool": "iperf3", "streams": 4, "seconds": 5},
                {"name": "quick", "tool": "ping", "count": 5, "interval_seconds": 1},
            ]
        }
    )
    one, four, quick = (test.model_dump() for test in plan.tests)
    assert one.items() >= {"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 3}.items()
    assert four.items() >= {"name": "tcp-4", "tool": "iperf3", "streams": 4, "seconds": 5}.items()
    assert quick.items() >= {"tool": "ping", "count": 5, "interval_seconds": 1.0}.items()


def test_all_mistakes_are_told_at_once():
    refused = faults(
        {
            "speed": 1,
            "arms": ["treatment", "nowhere"],
            "blocks": 0,
            "threshold": "high",
            "tests": [
                "tcp-9",
                {"name": "rtt", "count": -1},
                {"name": "new"},
                {"name": "other", "tool": "no-such-tool"},
                {"name": "tcp-1", "seconds": 2.5, "colour": "red"},
            ],
        }
    )
    assert set(refused) == {
        *("speed", "arms[1]", "blocks", "threshold", "tests[0]", "tests[1].count"),
        *("tests[2].tool", "tests[3].tool", "tests[4].seconds", "tests[4].colour"),
    }
    assert "tcp-1, tcp-8, rtt" in refused["tests[0]"]
    assert "streams" in refused["tests[4].colour"]


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ([], "$"),
        ("plan", "$"),
        (None, "$"),
        ({"blocks": "6"}, "blocks"),
        ({"blocks": 6.5}, "blocks"),
        ({"blocks": True}, "blocks"),
        ({"blocks": -1}, "blocks"),
        ({"blocks": 100_000}, "blocks"),
        ({"seed": -1}, "seed"),
        ({"pairing": "some"}, "pairing"),
        ({"pairing": 3}, "pairing"),
        ({"pairing": None}, "pairing"),
        ({"pairing": {}}, "pairing.random"),
        ({"pairing": {"random": 0}}, "pairing.random"),
        ({"pairing": {"random": 2}}, "pairing.random"),
        ({"pairing": {"random": 1, "seed": 2}}, "pairing.seed"),
        ({"direction": "up"}, "direction"),
        ({"load": "heavy"}, "load"),
        ({"warm_up": 1}, "warm_up"),
        ({"compare_with": ""}, "compare_with"),
        ({"compare_with": "x" * 81}, "compare_with"),
        ({"compare_with": "r"}, "compare_with"),
        ({"compare_with": 7}, "compare_with"),
        ({"compare_with": ["a", ""]}, "compare_with[1]"),
        ({"compare_with": ["a", 7]}, "compare_with[1]"),
        ({"compare_with": ["a", "r"]}, "compare_with[1]"),
        ({"compare_with": ["a", "b", "a"]}, "compare_with[2]"),
        ({"compare_with": [f"r{n}" for n in range(21)]}, "compare_with"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"tolerated_loss": 1}, "tolerated_loss"),
        ({"if_busy": "queue"}, "if_busy"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"tests": []}, "tests"),
        ({"tests": "tcp-1"}, "tests"),
        ({"tests": None}, "tests"),
        ({"tests": [7]}, "tests[0]"),
        ({"tests": ["rtt"] * 21}, "tests"),
        ({"tests": ["rtt", "rtt"]}, "tests[1]"),
        ({"tests": ["rtt", {"name": "rtt", "count": 3}]}, "tests[1].name"),
        ({"tests": [{"name": "rtt", "interval_seconds": 0}]}, "tests[0].interval_seconds"),
        ({"tests": [{"name": "tcp-1", "seconds": 0}]}, "tests[0].seconds"),
        ({"tests": [{"name": "tcp-1", "streams": 500}]}, "tests[0].streams"),
        ({"tests": [{"name": "Bad Name", "tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"name": "a" * 41, "tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"count": 3}]}, "tests[0].name"),
        ({"tests": [{"name": "x", "tool": 3}]}, "tests[0].tool"),
        ({"arms": []}, "arms"),
        ({"arms": None}, "arms"),
        ({"arms": ["treatment", "treatment"]}, "arms[1]"),
        ({"arms": []}, "arms"),
        ({"arms": ["treatment", 3]}, "arms[1]"),
        ({"arms": ["treatment"] * 11}, "arms"),
        ({"arms": ["baseline", {"name": "x"}]}, "arms[1].nodes"),
        ({"arms": ["baseline", {"nodes": "treatment"}]}, "arms[1].name"),
        ({"arms": ["baseline", {"name": "x", "nodes": "nowhere"}]}, "arms[1].nodes"),
        ({"arms": ["baseline", {"name": "X y", "nodes": "treatment"}]}, "arms[1].name"),
        ({"arms": ["baseline", {"name": "a" * 31, "nodes": "treatment"}]}, "arms[1].name"),
        ({"arms": ["baseline", {"name": "baseline", "nodes": "treatment"}]}, "arms[1].name"),
        ({"arms": ["treatment", {"name": "baseline", "nodes": "treatment"}]}, "arms[1].name"),
        ({"arms": ["baseline", {"name": "x", "nodes": "baseline"}]}, "arms[1]"),
        (
            {"arms": ["baseline", {"name": "x", "nodes": "treatment", "server_network": "vpc"}]},
            "arms[1].server_network",
        ),
        ({"baseline": "nobody"}, "baseline"),
        ({"note": "x" * MAX_PLAN_BYTES}, "$"),
        ({"two\nlines": 1}, '["two\\nlines"]'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_mistake_is_named_by_its_path(raw, path):
    assert path in faults(raw)


def test_too_many_trials_are_refused_with_the_blocks_that_fit():
    raw = json.loads((ROOT / "docs" / "plans" / "e4-mesh.json").read_text())
    nodes = dict.fromkeys(NODES, 150)
    fault = faults(raw, nodes)["blocks"]
    assert "134100 trials" in fault
    (most,) = re.findall(r"at most (\d+) blocks", fault)
    assert check({**raw, "blocks": int(most)}, nodes)
    assert "blocks" in faults({**raw, "blocks": int(most) + 1}, nodes)


def test_more_trials_than_a_block_may_have_are_no_matter_of_blocks():
    raw = {"pairing": "mesh", "load": "together", "blocks": 1}
    fault = faults(raw, dict.fromkeys(NODES, 200))["blocks"]
    assert "159200 trials" in fault and "fewer blocks" not in fault and "'ring'" in fault


def test_a_round_that_takes_too_long_to_collect_is_refused_with_the_tests_that_fit():
    ping = {"tool": "ping", "count": 2}
    tests = [{"name": f"ping-{number}", **ping} for number in range(12)]
    raw = {"pairing": "ring", "load": "together", "blocks": 1, "tests": tests}
    nodes = dict.fromkeys(NODES, 500)
    fault = faults(raw, nodes)["tests"]
    assert "500 pairs" in fault and "6000 trials" in fault
    (most,) = re.findall(r"at most (\d+) tests", fault)
    assert check({**raw, "tests": tests[: int(most)]}, nodes)
    assert check(raw, dict.fromkeys(NODES, 60))


def test_a_long_run_of_short_tests_is_refused_before_it_starts():
    raw = {"pairing": "mesh", "blocks": 20, "tests": [{"name": "rtt", "count": 10}]}
    nodes = dict.fromkeys(NODES, 70)
    # 20 blocks of 2415 pairs one after the other, each of which takes 2.15 s.
    assert "28 h 50 min" in faults(raw, nodes)["blocks"]
    assert check({**raw, "load": "together"}, nodes), "69 rounds a block instead"


def test_a_round_that_no_state_of_the_state_machine_could_hold_is_refused():
    raw = {"pairing": "ring", "load": "together"}
    assert "602 pairs" in faults(raw, dict.fromkeys(NODES, 602))["load"]
    assert check(raw, dict.fromkeys(NODES, 600))
    assert check({**raw, "arms": ["treatment"]}, dict.fromkeys(NODES, 1200))
    assert check({**raw, "load": "isolated", "blocks": 1}, dict.fromkeys(NODES, 600))


def test_more_random_pairs_than_there_are_are_refused():
    refused = faults({"pairing": {"random": 7}}, {"treatment": 4, "baseline": 5})
    assert "the 4 nodes of the arm 'treatment' make 6 pairs" in refused["pairing.random"]
    assert check({"pairing": {"random": 6}}, {"treatment": 4, "baseline": 5})


HOST = {"name": "host", "nodes": "baseline", "client_network": "host", "server_network": "host"}
TO_POD = {"name": "host-to-pod", "nodes": "baseline", "client_network": "host"}


def test_arms_may_use_the_same_nodes_in_other_networks():
    plan = check({"arms": ["baseline", HOST, TO_POD]})
    assert [(a.name, a.nodes, a.client_network, a.server_network) for a in plan.arms] == [
        ("baseline", "baseline", "pod", "pod"),
        ("host", "baseline", "host", "host"),
        ("host-to-pod", "baseline", "host", "pod"),
    ]
    assert plan.baseline == "baseline"
    assert plan.stack_arms == ("baseline",)


def test_host_networking_that_the_stack_does_not_allow_is_refused_with_the_remedy():
    refused = faults({"arms": ["baseline", HOST, TO_POD]}, settings=SETTINGS)
    assert set(refused) == {
        *("arms[1].client_network", "arms[1].server_network", "arms[2].client_network"),
    }
    assert all("HostNetwork=true" in line for line in refused.values())


SERVED = {"name": "served", "nodes": "baseline", "via": "service"}


def test_an_arm_may_differ_from_another_in_the_way_to_its_servers_alone():
    plan = check({"arms": ["baseline", SERVED], "tests": ["tcp-1", "http"]})
    assert [arm.via for arm in plan.arms] == ["pod", "service"]


def test_a_ping_through_a_service_is_refused_with_the_remedy():
    refused = faults({"arms": ["baseline", SERVED], "tests": ["tcp-1", "rtt"]})
    assert set(refused) == {"arms[1].via"}
    assert "leave rtt out of the tests, or write 'pod'" in refused["arms[1].via"]


def test_the_baseline_is_the_one_arm_on_its_nodes_or_has_to_be_named():
    treated = {**HOST, "name": "host-treated", "nodes": "treatment"}
    assert check({"arms": [treated, HOST]}).baseline == "host"
    refused = faults({"arms": [HOST, TO_POD]})
    assert "host and host-to-pod all use the nodes of the stack's baseline" in refused["baseline"]
    refused = faults({"arms": ["treatment", treated]})
    assert "none of the chosen arms is the stack's baseline" in refused["baseline"]
    assert "name one of treatment or host-treated" in refused["baseline"]
    assert check({"arms": [HOST, TO_POD], "baseline": "host"}).baseline == "host"


def test_arms_that_are_the_same_in_every_way_are_refused():
    refused = faults({"arms": ["baseline", HOST, {**HOST, "name": "host-again"}]})
    assert "'host-again' and 'host' are the same nodes" in refused["arms[2]"]
    equal_but_elsewhere = {**HOST, "name": "host-again", "nodes": "treatment"}
    assert check({"arms": [HOST, equal_but_elsewhere]})


def test_one_ready_node_is_not_a_pair():
    refused = faults({}, {"treatment": 1, "baseline": 0})
    assert "has 1 Ready node;" in refused["arms[0]"]
    assert "0 Ready nodes" in refused["arms[1]"]


def test_an_arm_that_is_not_measured_may_lack_nodes():
    arms = [*ARMS, StackArm("third", "spread", False, "ng-3", Selector.parse("third"))]
    raw = {"arms": ["treatment", "baseline"]}
    nodes = {**NODES, "third": 0}
    assert check_plan(raw, replace(SETTINGS, arms=arms), nodes=nodes, run_id="r")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "tool", "arms", "nodes", "tests", "pairing", "random", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(
    json_values
    | st.fixed_dictionaries({"tests": json_values, "arms": json_values, "pairing": json_values})
)
def test_any_json_is_either_a_plan_or_told_what_is_wrong(raw):
    try:
        check(raw)
    except InvalidPlan as invalid:
        assert invalid.faults
        assert all("\n" not in str(fault) for fault in invalid.faults)


@pytest.mark.parametrize("name", ["..", "a.b", "é", "-x", "a" * 81])
def test_an_execution_whose_name_cannot_be_an_id_is_refused(name):
    faults = Faults()
    check_name(name, faults)
    assert [fault.path for fault in faults] == ["$"]
    with pytest.raises(InvalidPlan, match="cannot be an id"):
        check_plan({}, replace(SETTINGS, arms=()), nodes={}, run_id=name)
