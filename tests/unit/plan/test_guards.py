"""The guards of a plan: each trips for its own reason only, and says so if it does not."""

from __future__ import annotations

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import registry
from rackrate.plan import guards
from rackrate.plan.guards import (
    Confound,
    Outlook,
    arms_cannot_differ,
    burst_credits,
    confound,
    few_blocks,
    few_pairs,
    one_thread,
    placeholder_nodes,
    placements,
    planned_guards,
    topology,
)
from rackrate.plan.items import BlockItem, MakeupItem, Pair
from rackrate_contract.arms import InstancePlacement
from tests import ROOT
from tests.unit.builders import arm, network, node

STEADY = network(50e9, 50e9)
TCP_1 = registry.load_test({"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10})
TCP_8 = registry.load_test({"name": "tcp-8", "tool": "iperf3", "streams": 8, "seconds": 10})
RTT = registry.load_test({"name": "rtt", "tool": "ping"})
FACTS = node("a")


def pair(of, client, server):
    networks = {"client_network": "pod", "server_network": "pod"}
    return Pair(arm=of, client=client, server=server, **networks)


def item(*pairs):
    return BlockItem(
        progress="block 1 of 6",
        block=1,
        blocks=6,
        round=1,
        rounds=1,
        warm_up=False,
        tests=(TCP_1,),
        pairs=pairs,
    )


MAKEUP = MakeupItem(progress="repeating", number=1, of=1, schedule="schedule.json")
TREATMENT = arm("treatment", ["a", "b"], placement="cluster")
BASELINE = arm("baseline", ["c", "d"])
PAIRS = [pair("treatment", "a", "b"), pair("baseline", "c", "d")]


def outlook(**more):
    values = {
        "arms": [TREATMENT, BASELINE],
        "baseline": "baseline",
        "tests": [TCP_1],
        "blocks": 6,
        "items": [item(*PAIRS), MAKEUP],
        "seconds": 100.0,
        "most_bytes_of_node": {},
    }
    return Outlook(**{**values, **more})


class TestBurstCredits:
    def sending(self, most, seconds=100.0, **more):
        used = {"a": most, "c": 1}
        return burst_credits(outlook(most_bytes_of_node=used, seconds=seconds, **more))

    def test_more_than_the_baseline_on_the_mean_trips_and_says_how_much(self):
        guard = self.sending(round(1.5e9 / 8 * 100))
        assert guard.would_trip
        assert "a may come to 1.50 Gbit/s one way on the mean of the run, 2.00 times" in guard.text
        assert "the 750 Mbit/s its instance sustains" in guard.text
        assert "takes 9.38 GB out of its burst" in guard.text
        assert "bursts last 5 to 60 minutes, and this is to take 1 min 40 s" in guard.text
        assert "without a burst" in guard.remedy

    def test_a_scaled_network_has_a_scaled_baseline(self):
        scaled = arm("treatment", ["a", "b"], network_scale=0.1)
        guard = self.sending(round(0.1e9 / 8 * 100), arms=[scaled, BASELINE])
        assert guard.would_trip

    @pytest.mark.parametrize(
        ("bandwidth", "text"),
        [
            (STEADY, "the instances have no burst"),
            (network(None, None), "what the instances sustain is not known"),
        ],
    )
    def test_without_a_known_burst_it_cannot_trip(self, bandwidth, text):
        arms = [arm("treatment", ["a", "b"], network=bandwidth)]
        guard = self.sending(10**15, arms=arms)
        assert (guard.would_trip, guard.text, guard.remedy) == (False, text, "")

    @given(st.integers(0, 10**13), st.floats(1, 1e5))
    def test_it_trips_when_the_mean_exceeds_the_baseline_and_only_then(self, sent, seconds):
        assert self.sending(sent, seconds=seconds).would_trip == (sent * 8 / seconds / 0.75e9 > 1)


class TestArmsThatCannotDiffer:
    def test_a_test_at_the_instances_limit_trips_and_is_named(self):
        guard = arms_cannot_differ(outlook(tests=[TCP_1, TCP_8, RTT]))
        assert guard.would_trip
        assert (
            "tcp-8 has the same limit on treatment as on baseline (instance peak, 10.0 Gbit/s)"
            in (guard.text)
        )
        assert "tcp-1" not in guard.text

    def test_one_flow_on_an_instance_that_is_too_small_trips(self):
        small = network(0.5e9, 2e9)
        arms = [
            arm("treatment", ["a", "b"], placement="cluster", network=small),
            arm("baseline", ["c", "d"], network=small),
        ]
        assert arms_cannot_differ(outlook(arms=arms)).would_trip

    def test_a_rate_that_both_arms_carry_trips(self):
        udp = {"name": "udp", "tool": "iperf3", "protocol": "udp", "bits_per_second": 10**9}
        guard = arms_cannot_differ(outlook(tests=[registry.load_test(udp)]))
        assert guard.would_trip
        assert "offered rate" in guard.text

    def test_limits_that_differ_and_latency_do_not_trip(self):
        assert not arms_cannot_differ(outlook(tests=[TCP_1, RTT])).would_trip

    def test_arms_of_one_placement_are_not_expected_to_differ_in_their_limits(self):
        host = arm("host", ["c", "d"])
        assert not arms_cannot_differ(outlook(arms=[host, BASELINE])).would_trip


class TestHowMuchAResultRestsOn:
    @pytest.mark.parametrize(("blocks", "trips"), [(1, True), (5, True), (6, False), (30, False)])
    def test_an_interval_needs_six_blocks(self, blocks, trips):
        guard = few_blocks(outlook(blocks=blocks))
        assert guard.would_trip is trips

    def test_fewer_than_three_pairs_are_told_for_each_arm_that_has_them(self):
        more = [*PAIRS, pair("treatment", "a", "e"), pair("treatment", "b", "e")]
        guard = few_pairs(outlook(items=[item(*more)]))
        assert guard.would_trip
        assert guard.text.startswith("baseline has 1 pair of nodes")
        two = few_pairs(outlook(items=[item(*PAIRS, pair("treatment", "a", "e"))]))
        assert two.would_trip
        assert two.text.startswith("treatment has 2 pairs of nodes and baseline has 1 pair")
        assert "these nodes only" in two.text

    def test_a_pair_turned_round_is_the_same_pair(self):
        turned = [pair(p.arm, p.server, p.client) for p in PAIRS]
        assert few_pairs(outlook(items=[item(*PAIRS), item(*turned)])).would_trip

    def test_three_pairs_in_each_arm_allow_an_interval_for_this_stacks_placement(self):
        more = [
            *PAIRS,
            *(pair("treatment", one, "e") for one in "ab"),
            *(pair("baseline", one, "f") for one in "cd"),
        ]
        guard = few_pairs(outlook(items=[item(*more)]))
        assert not guard.would_trip
        assert "every arm has 3 pairs" in guard.text
        assert "this stack's placement" in guard.text


ZONES = Confound("zones", "zone", lambda node: node.zone, "move them")


class TestConfounds:
    @pytest.mark.parametrize(
        ("guard", "fact"),
        [
            ("zones", "zone"),
            ("instance_types", "instance_type"),
            ("images", "image"),
            ("kernels", "kernel"),
        ],
    )
    def test_arms_that_differ_in_something_else_trip_and_it_is_named(self, guard, fact):
        other = arm("baseline", [node(name, **{fact: "other"}) for name in ("c", "d")])
        by_name = {g.guard: g for g in planned_guards(outlook(arms=[TREATMENT, other]))}
        assert by_name[guard].would_trip
        assert f"treatment: {getattr(FACTS, fact)}; baseline: other" in by_name[guard].text
        others = {"zones", "instance_types", "images", "kernels"} - {guard}
        assert not any(by_name[name].would_trip for name in others)

    def test_spot_and_on_demand_instances_are_told_apart(self):
        other = arm("baseline", [node(name, capacity_type="spot") for name in ("c", "d")])
        by_name = {g.guard: g for g in planned_guards(outlook(arms=[TREATMENT, other]))}
        assert {"capacity_types"} == {n for n, g in by_name.items() if g.would_trip} - {"few_pairs"}
        assert "treatment: on-demand; baseline: spot" in by_name["capacity_types"].text

    def test_an_arm_that_is_to_span_zones_is_no_confound_and_other_arms_still_are(self):
        (zones,) = [about for about in guards._CONFOUNDS if about.guard == "zones"]
        far = arm("far", ["c", node("d", zone="us-east-1b")], pairs="across-zones")
        guard = confound(outlook(arms=[TREATMENT, far]), zones)
        assert not guard.would_trip
        assert "far is across zones, as the plan asks" in guard.text
        other = arm("other", ["e", node("f", zone="us-east-1b")])
        assert confound(outlook(arms=[TREATMENT, far, other]), zones).would_trip
        alone = confound(outlook(arms=[far]), zones)
        assert not alone.would_trip
        assert "far is across zones" in alone.text

    def test_nodes_of_one_arm_that_differ_trip_too(self):
        mixed = arm("treatment", ["a", node("b", zone="us-east-1b")])
        guard = confound(outlook(arms=[mixed, BASELINE]), ZONES)
        assert guard.would_trip
        assert "treatment: us-east-1a, us-east-1b; baseline: us-east-1a" in guard.text

    def test_facts_that_are_not_told_do_not_trip(self):
        silent = [arm(name, [node(name, zone=None)]) for name in ("treatment", "baseline")]
        guard = confound(outlook(arms=silent), ZONES)
        assert (guard.would_trip, guard.text) == (False, "the nodes do not tell their zone")


class TestTheTool:
    def test_a_test_too_fast_for_one_thread_trips(self):
        arms = [arm(name, ["a", "b"], network=STEADY) for name in ("treatment", "baseline")]
        many = registry.load_test({"name": "tcp-32", "tool": "iperf3", "streams": 32})
        guard = one_thread(outlook(arms=arms, tests=[many, TCP_1]))
        assert guard.would_trip
        assert guard.text.startswith("tcp-32 may come to more than 40.0 Gbit/s")

    def test_iperf_has_threads_and_slow_tests_need_none(self):
        arms = [arm(name, ["a", "b"], network=STEADY) for name in ("treatment", "baseline")]
        iperf = registry.load_test({"name": "i", "tool": "iperf", "streams": 32})
        assert not one_thread(outlook(arms=arms, tests=[iperf, RTT])).would_trip
        assert not one_thread(outlook(tests=[TCP_8])).would_trip


class TestPlacements:
    def test_nodes_of_which_ec2_says_nothing_are_counted_with_the_remedy(self):
        unknown = arm("baseline", [node(name, ec2_placement=None) for name in ("c", "d")])
        guard = placements(outlook(arms=[TREATMENT, unknown]))
        assert guard.would_trip
        assert "2 nodes of 4" in guard.text
        assert "ec2:DescribeInstances" in guard.remedy

    def test_a_group_of_an_unknown_strategy_is_not_taken_for_granted(self):
        unsure = InstancePlacement(group="g")
        treatment = arm("treatment", [node(n, ec2_placement=unsure) for n in "ab"])
        assert placements(outlook(arms=[treatment, BASELINE])).would_trip

    @pytest.mark.parametrize(
        ("layers", "words"),
        [
            (None, "EC2 did not answer for 4 nodes"),
            ((), "EC2 reports no topology for c5.large"),
            (("nn-1",), "known for 4 of 4 nodes"),
        ],
    )
    def test_the_topology_is_told_or_said_to_be_absent(self, layers, words):
        arms = [
            arm(name, [node(n, network_layers=layers) for n in nodes])
            for name, nodes in (("treatment", "ab"), ("baseline", "cd"))
        ]
        assert topology(outlook(arms=arms)).text == words


class TestNodesThatAreNotThere:
    def test_placeholders_are_counted(self):
        absent = {"instance_id": None, "kubernetes": None, "zone": None}
        baseline = arm("baseline", [node(name, **absent) for name in ("c", "d")])
        guard = placeholder_nodes(outlook(arms=[TREATMENT, baseline]))
        assert guard.would_trip
        assert guard.text.startswith("2 nodes are not there yet")

    def test_a_node_that_names_no_instance_is_there_all_the_same(self):
        guard = placeholder_nodes(outlook(arms=[arm("baseline", [node("c", instance_id=None)])]))
        assert not guard.would_trip


def test_every_guard_is_reported():
    source = inspect.getsource(planned_guards)
    made = {
        name
        for name, function in vars(guards).items()
        if inspect.isfunction(function) and function.__annotations__.get("return") == "Guard"
    } - {"_guard"}
    assert {name for name in made if f"{name}(outlook" not in source} == set()


def test_every_guard_has_a_row_in_the_documentation():
    etcd = registry.load_test({"name": "etcd", "tool": "etcd"})
    table = (ROOT / "docs/cost.md").read_text().partition("\n## Guards\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)
    named = [guard.guard for guard in planned_guards(outlook(tests=[RTT, etcd]))]
    assert named == rows, "docs/cost.md has the rows of the guards in the order of planned_guards"


def test_guards_that_would_not_trip_are_told_as_well_and_offer_no_remedy():
    guards = planned_guards(outlook())
    assert all(guard.text for guard in guards)
    assert all(bool(guard.remedy) == guard.would_trip for guard in guards)
    assert {guard.guard for guard in guards if guard.would_trip} == {"few_pairs"}
