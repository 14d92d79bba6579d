"""The cost of a run: the lines add up, and the constants match the stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan import costs
from rackrate.plan.costs import Usage, estimate, queries, steps
from rackrate.plan.items import build_schedule
from rackrate.plan.prices import (
    CLUSTER_HOUR,
    CROSS_ZONE_GIGABYTE,
    LAMBDA_GIGABYTE_SECOND,
    LAMBDA_REQUEST,
    STATE_TRANSITION,
    Price,
    instance_hour,
)
from tests.templates import cloudformation
from tests.unit.builders import arm, plan

ROOT = Path(__file__).parents[3]
PRICES = {
    instance_hour("c5.large"): Price(0.1, "here"),
    CLUSTER_HOUR: Price(0.2, "here"),
    STATE_TRANSITION: Price(0.001, "here"),
    LAMBDA_REQUEST: Price(0.01, "here"),
    LAMBDA_GIGABYTE_SECOND: Price(0.002, "here"),
    CROSS_ZONE_GIGABYTE: Price(0.01, "here"),
}


def usage(**more: Any) -> Usage:
    values: dict[str, Any] = {
        "seconds": 1800.0,
        "nodes": {"c5.large": 4},
        "state_transitions": 100,
        "invocations": 40,
        "cross_zone_bytes": 0,
    }
    return Usage(**{**values, **more})


def lines(cost):
    return {line.what: line for line in cost.lines}


class TestLines:
    def test_each_is_a_quantity_times_a_price(self):
        entries = lines(estimate(usage(), PRICES, region="us-east-1"))
        assert entries["EC2 c5.large, 4 nodes"].quantity == 2.0
        assert entries["EC2 c5.large, 4 nodes"].usd == pytest.approx(0.2)
        assert entries["EKS cluster"].usd == pytest.approx(0.1)
        assert entries["Step Functions"].usd == pytest.approx(0.1)
        assert entries["Lambda requests"].usd == pytest.approx(0.4)
        whole = costs.REPORT_SECONDS + costs.ANALYSIS_SECONDS
        gigabyte_seconds = 38 * costs.SECONDS_PER_INVOCATION * 0.5 + whole * 1769 / 1024
        assert entries["Lambda duration"].quantity == gigabyte_seconds
        assert entries["Lambda duration"].usd == pytest.approx(gigabyte_seconds * 0.002)
        assert all(line.source == "here" for line in entries.values())

    def test_only_nodes_and_cluster_are_paid_anyway(self):
        cost = estimate(usage(), PRICES, region="us-east-1")
        assert [line.what for line in cost.lines if line.paid_anyway] == [
            "EC2 c5.large, 4 nodes",
            "EKS cluster",
        ]
        assert cost.usd - cost.usd_of_run == pytest.approx(0.3)

    def test_traffic_between_zones_is_billed_to_both_sides(self):
        crossing = usage(cross_zone_bytes=10 * 10**9)
        line = estimate(crossing, PRICES, region="us-east-1").lines[-1]
        assert (line.quantity, line.unit) == (20.0, "GB")
        assert line.usd == pytest.approx(0.2)
        assert CROSS_ZONE_GIGABYTE in queries(crossing)

    def test_no_traffic_between_zones_needs_no_price(self):
        assert CROSS_ZONE_GIGABYTE not in queries(usage())
        cost = estimate(usage(), PRICES, region="us-east-1")
        assert not any("zones" in line.what for line in cost.lines)


class TestUnknownPrices:
    def test_a_price_that_is_not_known_is_said_and_not_taken_for_nothing(self):
        unknown = {**PRICES, instance_hour("c5.large"): Price(None, "unknown", "refused")}
        cost = estimate(usage(), unknown, region="us-east-1")
        assert lines(cost)["EC2 c5.large, 4 nodes"].usd is None
        assert cost.unknown == ("EC2 c5.large, 4 nodes",)
        assert cost.notes[0] == "not all prices are the Price List API's: refused"
        assert "pricing:GetProducts" in cost.notes[1], "how to get the price"
        assert "without EC2 c5.large, 4 nodes: the price is not known" in cost.summary

    def test_nodes_of_an_unknown_type_are_a_line_without_an_amount(self):
        cost = estimate(usage(nodes={None: 2, "c5.large": 2}), PRICES, region="us-east-1")
        assert cost.unknown == ("EC2, 2 nodes of an unknown type",)

    def test_known_prices_need_no_note(self):
        cost = estimate(usage(), PRICES, region="us-east-1")
        assert cost.notes == cost.unknown == ()
        assert len(cost.summary) == 1


@given(
    st.floats(0, 1e6),
    st.dictionaries(st.sampled_from(["c5.large", "m5.large", None]), st.integers(1, 1000)),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**16),
    st.floats(0, 10),
)
def test_the_sum_is_of_the_lines_and_each_query_is_answered_for(
    seconds, nodes, transitions, invocations, crossing, usd
):
    used = usage(
        seconds=seconds,
        nodes=nodes,
        state_transitions=transitions,
        invocations=invocations,
        cross_zone_bytes=crossing,
    )
    prices = {query: Price(usd, "here") for query in queries(used)}
    cost = estimate(used, prices, region="eu-west-1")
    amounts = [line.usd for line in cost.lines if line.usd is not None]
    assert cost.usd == pytest.approx(sum(amounts))
    assert 0 <= cost.usd_of_run <= cost.usd or cost.usd == pytest.approx(0)
    assert len(cost.unknown) == (1 if None in nodes else 0)
    assert cost.not_included


# -- the stack's own figures


def followers(state: dict[str, Any]) -> Iterator[str]:
    yield from (choice["Next"] for choice in state.get("Choices", []))
    yield from (state[name] for name in ("Next", "Default") if name in state)


#: The states of a run whose namespace or rights are made again.
HEALING = {"Heal", "What asked to heal?", "Heal for its item"}


def passed_through(machine: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The states of a run in which nothing fails or vanishes."""
    seen: dict[str, dict[str, Any]] = {}
    waiting = [machine["StartAt"]]
    while waiting:
        name = waiting.pop()
        if name not in seen and name not in HEALING:
            seen[name] = machine["States"][name]
            waiting += followers(seen[name])
    return {name: state for name, state in seen.items() if state["Type"] != "Fail"}


MACHINE = yaml.load((ROOT / "statemachine" / "benchmark.asl.yaml").read_text(), yaml.CSafeLoader)


def calls(states: dict[str, dict[str, Any]]) -> int:
    return sum(state["Type"] == "Task" for state in states.values())


def test_steps_outside_of_items_are_rather_too_many_than_too_few():
    states = passed_through(MACHINE)
    assert len(states) <= costs.RUN_TRANSITIONS <= len(states) + 12
    assert calls(states) <= costs.RUN_INVOCATIONS <= calls(states) + 6


def test_an_item_collects_once_and_a_make_up_item_does_nothing():
    (items,) = (state for state in MACHINE["States"].values() if state["Type"] == "Map")
    states = passed_through(items["ItemProcessor"])
    for name in ("Wait for its servers", "Wait for tests"):  # none is gone, and none takes minutes
        del states[name]
    assert len(states) == costs.ITEM_TRANSITIONS
    assert calls(states) == costs.ITEM_INVOCATIONS
    launch, running = states["Launch"], states[states["Launch"]["Next"]]
    nothing_to_do = states[running["Choices"][-1]["Next"]]
    assert nothing_to_do["End"]
    pause = states["Pause"]
    assert pause["Next"] == "Launch"
    assert len([pause, launch, running, nothing_to_do]) == costs.MAKEUP_TRANSITIONS


def test_steps_are_counted_item_by_item():
    items = build_schedule(plan(blocks=6), [arm("baseline", ["a", "b"])])
    assert steps(items, looks=0) == (
        costs.RUN_TRANSITIONS + 6 * 7 + 2 * 4,
        costs.RUN_INVOCATIONS + 6 * 2 + 2 * 1,
    )
    assert steps(items, looks=1) == (
        costs.RUN_TRANSITIONS + 6 * 7 + 2 * 4 + costs.LOOK_TRANSITIONS,
        costs.RUN_INVOCATIONS + 6 * 2 + 2 * 1 + costs.LOOK_INVOCATIONS,
    )


def test_a_look_passes_through_as_many_states_as_are_counted():
    """From the map through the choices to the look, and back to the map."""
    name, passed = "Measure", []
    while name not in passed:
        passed.append(name)
        name = MACHINE["States"][name].get("Default") or MACHINE["States"][name]["Next"]
    assert name == "Measure"
    assert "Look" in passed
    assert len(passed) == costs.LOOK_TRANSITIONS
    assert calls({state: MACHINE["States"][state] for state in passed}) == costs.LOOK_INVOCATIONS


def test_every_function_of_a_run_has_the_memory_that_is_counted():
    template = cloudformation.load(ROOT / "templates" / "benchmark.yaml")
    assert template["Globals"]["Function"]["MemorySize"] == costs.FUNCTION_MEGABYTES
    others = {
        name: resource["Properties"]["MemorySize"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
        and "MemorySize" in resource["Properties"]
    }
    # A comparison is not part of a run.
    assert others.pop("CompareFunction") == costs.LARGE_MEGABYTES
    large = ("AnalyzeFunction", "CollectFunction", "LookFunction", "ReportFunction")
    assert others == dict.fromkeys(large, costs.LARGE_MEGABYTES)
