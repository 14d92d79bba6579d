"""A planned run's time, traffic, steps and cost from its schedule; the example in docs/cost.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.measure.nodes import NETWORK_SCALE_LABEL, node_of
from rackrate.plan import costs, prices
from rackrate.plan.check import check_plan
from rackrate.plan.estimate import OVERHEAD_SECONDS_PER_LOOK, EstimateSummary, estimate
from rackrate.plan.items import build_schedule, build_warm_up
from rackrate_contract.estimates import Estimates, Traffic
from tests.unit import builders
from tests.unit.builders import C5_LARGE, network
from tests.unit.samples import ARMS, HOST_SETTINGS, NODES, node

DOCUMENT = (Path(__file__).parents[3] / "docs" / "cost.md").read_text()


@pytest.fixture(autouse=True)
def nothing_known():
    prices.forget()


def estimated(raw=None, *, zones=None, scale=None, bandwidth=C5_LARGE, region="us-east-1", **facts):
    """The estimate of a plan on two nodes of each arm, made as in the plan function."""
    counts = {name: len(names) for name, names in NODES.items()}
    plan = check_plan(raw or {}, HOST_SETTINGS, nodes=counts, run_id="run-1")
    stack_arms = {arm.name: arm for arm in ARMS}
    labels = {} if scale is None else {NETWORK_SCALE_LABEL: str(scale)}

    def arm(choice):
        stack_arm = stack_arms[choice.nodes]
        nodes = [
            node_of(node(name, stack_arm.node_groups[0], **labels)).model_copy(
                update={"zone": (zones or {}).get(name, "us-east-1a"), **facts}
            )
            for name in NODES[choice.nodes]
        ]
        return builders.arm(
            choice.name,
            nodes,
            stack_arm=choice.nodes,
            client_network=choice.client_network,
            server_network=choice.server_network,
            placement=stack_arm.placement,
            network=bandwidth,
            network_scale=scale,
        )

    arms = [arm(choice) for choice in plan.arms]
    warm_ups = build_warm_up(plan, arms) if plan.warm_up else []
    return estimate(plan, build_schedule(plan, arms), warm_ups, arms, pricing=None, region=region)


#: The traffic of six blocks with one test.
TCP_1 = {"tests": ["tcp-1"], "warm_up": False, "blocks": 6}


def tripped(estimates):
    return {guard.guard for guard in estimates.guards if guard.would_trip}


def burst(estimates):
    (guard,) = (guard for guard in estimates.guards if guard.guard == "burst_credits")
    return guard.text


def quantity(estimates, what):
    (line,) = (line for line in estimates.cost.lines if line.what.startswith(what))
    return line.quantity


class TestWhatAPlanTakes:
    def test_the_default_plan(self):
        estimates = estimated()
        assert estimates.trials == 12 * 4 * 2
        assert 14 < estimates.block_seconds < 16
        assert estimates.at_least.seconds > 6 * estimates.block_seconds
        assert quantity(estimates, "EC2 c5.large, 4 nodes") == pytest.approx(
            4 * estimates.seconds / 3600
        )

    def test_the_least_is_what_the_fewest_blocks_take_by_themselves(self):
        estimates = estimated({"blocks": {"least": 4, "most": 8}}).at_least
        alone = estimated({"blocks": 4})
        assert (estimates.blocks, estimates.trials) == (4, alone.trials)
        assert estimates.seconds == pytest.approx(alone.seconds + OVERHEAD_SECONDS_PER_LOOK)
        assert alone.cost.usd < estimates.usd < 1.1 * alone.cost.usd

    def test_a_fixed_number_of_blocks_takes_as_much_at_least_as_at_most(self):
        estimates = estimated({"blocks": 6})
        least = estimates.at_least
        assert (least.blocks, least.seconds, least.trials) == (
            6,
            estimates.seconds,
            estimates.trials,
        )
        assert least.usd == pytest.approx(estimates.cost.usd, abs=1e-4)

    def test_pauses_take_time_before_each_block_but_the_first(self):
        without = estimated()
        estimates = estimated({"pause_seconds": 100})
        assert estimates.seconds > without.seconds + 11 * 100
        assert estimates.at_least.seconds > without.at_least.seconds + 5 * 100
        # The pods of each block start after its pause.
        assert without.block_seconds < estimates.block_seconds < without.block_seconds + 5

    def test_traffic_is_what_the_limits_allow_each_way(self):
        estimates = estimated({**TCP_1, "direction": "forward"})
        sent = {name: ways.sent for name, ways in estimates.bytes_per_node.items()}
        received = {name: ways.received for name, ways in estimates.bytes_per_node.items()}
        assert max(sent.values()) == 6 * 3 * 10e9 / 8
        assert sent["node-a"] + sent["node-b"] == 6 * 3 * 10e9 / 8
        assert sent["node-c"] + sent["node-d"] == 6 * 3 * 5e9 / 8
        assert sorted(sent.values()) == sorted(received.values())

    def test_a_warm_up_is_in_time_traffic_and_steps(self):
        with_it = estimated({"tests": ["tcp-1"]})
        without = estimated({"tests": ["tcp-1"], "warm_up": False})
        assert with_it.seconds > without.seconds
        assert with_it.state_transitions > without.state_transitions
        assert with_it.trials == without.trials
        total = [
            sum(ways.sent for ways in estimates.bytes_per_node.values())
            for estimates in (with_it, without)
        ]
        # One second for each arm's pair, at its limit for a single flow.
        assert total[0] - total[1] == pytest.approx((10e9 + 5e9) / 8)

    def test_a_scaled_network_carries_scaled_traffic(self):
        full, tenth = estimated(), estimated(scale=0.1)
        for name, ways in tenth.bytes_per_node.items():
            assert ways.sent == pytest.approx(full.bytes_per_node[name].sent / 10, abs=2)

    def test_both_directions_of_a_test_are_sent_and_received(self):
        both = {"name": "both", "tool": "iperf3", "bidirectional": True, "seconds": 10}
        estimates = estimated({**TCP_1, "tests": [both]})
        assert estimates.bytes_per_node["node-a"] == Traffic(
            sent=75 * 10**9, received=75 * 10**9
        ), "6 blocks of 10 s at 10 Gbit/s"

    def test_a_burst_is_spent_by_the_greater_way_and_not_by_both(self):
        one_way = {"name": "t", "tool": "iperf3", "seconds": 10}
        one, both = (
            estimated({"tests": [test], "warm_up": False, "direction": "forward"})
            for test in (one_way, {**one_way, "bidirectional": True})
        )
        assert {"burst_credits"} <= tripped(one) & tripped(both)
        assert burst(one) == burst(both)

    @settings(max_examples=30)
    @given(
        st.sampled_from(["one", "ring", "mesh"]),
        st.sampled_from(["alternate", "forward", "reverse", "both"]),
        st.sampled_from([{}, {"reverse": True}, {"bidirectional": True}]),
    )
    def test_what_is_sent_is_received(self, pairing, direction, ways):
        raw = {"pairing": pairing, "direction": direction, "blocks": 3}
        tests = ["tcp-8", "rtt", {"name": "tcp-1", **ways}]
        used = estimated({**raw, "tests": tests}).bytes_per_node.values()
        assert sum(node.sent for node in used) == sum(node.received for node in used) > 0

    def test_arms_that_share_nodes_pay_for_them_once(self):
        host = {"name": "host", "nodes": "baseline", "client_network": "host"}
        estimates = estimated({"arms": ["baseline", host], "baseline": "baseline"})
        assert quantity(estimates, "EC2 c5.large, 2 nodes") == pytest.approx(
            2 * estimates.seconds / 3600
        )

    def test_looks_are_steps_too(self):
        fixed, looking = (
            estimated({"warm_up": False, "blocks": blocks})
            for blocks in (6, {"least": 4, "most": 6})
        )
        # Each batch has at least one make-up item, and these two have three. Both are two series.
        more = 2 * costs.LOOK_TRANSITIONS + costs.MAKEUP_TRANSITIONS
        assert looking.state_transitions - fixed.state_transitions == more


class TestTrafficBetweenZones:
    def test_a_pair_within_a_zone_pays_nothing_even_if_arms_are_apart(self):
        apart = {"node-c": "us-east-1b", "node-d": "us-east-1b"}
        estimates = estimated(zones=apart)
        assert not any("zones" in line.what for line in estimates.cost.lines)
        assert "zones" in tripped(estimates)

    def test_a_pair_across_zones_pays_for_each_gigabyte_on_both_sides(self):
        estimates = estimated(TCP_1, zones={"node-d": "us-east-1b"})
        crossing = 6 * 3 * 5e9 / 8 / 1e9
        assert quantity(estimates, "traffic between zones") == pytest.approx(2 * crossing)

    def test_what_a_gigabyte_between_zones_costs_is_told(self):
        estimates = estimated(TCP_1, zones={"node-d": "us-east-1b"})
        (line,) = [each for each in estimates.cost.summary if "between zones" in each]
        assert "2 cents per GB" in line
        assert "11.2 GB" in line

    def test_nodes_whose_zone_is_not_known_cross_none(self):
        estimates = estimated(zones=dict.fromkeys(["node-a", "node-b", "node-c", "node-d"]))
        assert not any("between zones" in line.what for line in estimates.cost.lines)


class TestWhatIsTold:
    def test_what_is_stored_is_read_again(self):
        estimates = estimated()
        assert Estimates.from_json(estimates.to_json()) == estimates

    def test_an_estimate_of_an_earlier_release_is_read(self):
        stored = estimated().to_json()
        del stored["at_least"]
        assert Estimates.from_json(stored).at_least is None

    def test_guards_that_would_trip_are_told_in_words_with_their_remedies(self):
        estimates = estimated({"blocks": 2})
        guards = EstimateSummary.of(estimates).guards_that_would_trip
        assert len(guards) == len(tripped(estimates))
        for guard in estimates.guards:
            assert bool(guard.remedy) == guard.would_trip
            assert (f"{guard.text}; {guard.remedy}" in guards) is guard.would_trip

    def test_the_summary_has_the_most_of_any_node_either_way(self):
        estimates = estimated({**TCP_1, "direction": "forward"})
        assert EstimateSummary.of(estimates).most_bytes_per_node == 22_500_000_000

    def test_a_type_without_a_price_leaves_an_estimate_that_says_so(self):
        estimates = estimated(instance_type="x99.mega")
        assert estimates.cost.unknown == ("EC2 x99.mega, 4 nodes",)
        assert estimates.cost.usd > 0
        assert estimates.cost.lines[0].usd is None
        assert "pricing:GetProducts" in estimates.cost.notes[-1]
        assert not any("pricing:GetProducts" in note for note in estimated().cost.notes)

    def test_an_unknown_type_of_instance_leaves_an_estimate(self):
        estimates = estimated(bandwidth=network(None, None), instance_type=None)
        assert estimates.cost.unknown == ("EC2, 4 nodes of an unknown type",)

    def test_the_summary_is_short_enough_for_a_console(self):
        summary = estimated().cost.summary
        assert 1 <= len(summary) <= 4
        assert all(len(line) <= 200 for line in summary)


class TestTheDocument:
    """docs/cost.md shows the default plan on two c5.large for each arm, with the table's prices."""

    def test_its_example_is_what_the_code_estimates(self):
        estimates = estimated()
        rows = [
            f"| {line.what} | {line.quantity:.4g} | {line.unit} |"
            f" {amount(line.usd_per_unit)} | {line.usd:.4f} |"
            for line in estimates.cost.lines
        ]
        assert "\n".join(rows) in DOCUMENT
        assert f"| total | | | | {estimates.cost.usd:.4f} |" in DOCUMENT
        least = estimates.at_least
        assert f"{least.seconds:.0f} to {estimates.seconds:.0f} seconds" in DOCUMENT
        assert f"${least.usd:.4f} if it stops after {least.blocks} blocks" in DOCUMENT
        assert f"${estimates.cost.usd_of_run:.4f}" in DOCUMENT

    def test_its_table_of_prices_is_the_codes(self):
        rows = [
            f"| {dict(query.attributes).get('instanceType', '')} | {amount(figure.usd)} |"
            f" {figure.date} | {figure.source} |"
            for query, figure in prices.FALLBACK.items()
        ]
        listed = [
            re.sub(r"^\| (?:`?(\w+\.\w+)`?|[^|]*) \|", lambda m: f"| {m[1] or ''} |", line)
            for line in re.sub(r"<(https://\S+)>", r"\1", DOCUMENT).splitlines()
        ]
        assert [line for line in listed if line in rows] == rows

    def test_its_costs_of_a_stack_add_up_to_the_readmes(self):
        table = DOCUMENT.split("| what | price | per hour | price list |")[1].split("\n\n")[0]
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
        *parts, total = [float(row[2].strip("*$")) for row in rows]
        assert sum(parts) == pytest.approx(total)
        assert all(re.search(r"\w+/\d{14}$|GetProducts", row[3]) for row in rows[:-1])
        readme = (Path(__file__).parents[3] / "README.md").read_text()
        assert f"${total:.2f} an hour" in readme

    def test_its_assumptions_are_the_codes(self):
        small = f"{costs.SECONDS_PER_INVOCATION:.0f} second with {costs.FUNCTION_MEGABYTES} MB"
        assert f"{small} each, and the time of the servers" in DOCUMENT
        assert f"{costs.SECONDS_PER_POD} s for each pod" in DOCUMENT
        assert (
            f"| calls with {costs.LARGE_MEGABYTES} MB | {costs.COLLECT_SECONDS:.0f} seconds to"
            f" collect a series, {costs.ANALYSIS_SECONDS:.0f} seconds for the analysis and each"
            f" look, {costs.REPORT_SECONDS:.0f} seconds for the report, and"
            f" {costs.SECONDS_PER_COLLECTED}, {costs.SECONDS_PER_ANALYZED} and"
            f" {costs.SECONDS_PER_REPORTED} s for each of their trials |"
        ) in DOCUMENT
        assert f"{costs.RUN_TRANSITIONS} steps" in DOCUMENT
        assert f"{costs.ITEM_TRANSITIONS} for each series of the schedule" in DOCUMENT
        assert f"{costs.MAKEUP_TRANSITIONS} for each make-up item" in DOCUMENT
        assert f"{costs.LOOK_TRANSITIONS} for each look" in DOCUMENT
        plain = " ".join(DOCUMENT.split())
        for text in costs.NOT_INCLUDED:
            assert text.split(":")[0].split(",")[0] in plain


def amount(usd):
    return f"{usd:.10f}".rstrip("0").rstrip(".")
