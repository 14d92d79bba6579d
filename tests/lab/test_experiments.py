"""Every experiment of docs/plans is one execution of the deployed stack, from plan to verdict.

A plan that has nothing but what another plan of docs/plans measures here is not run again.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from lab import stack
from rackrate import registry
from rackrate.plan import model as plans
from rackrate.tools.base import TestBase
from tests.lab.running import Lab

PLANS = stack.REPOSITORY / "docs" / "plans"
#: The demo, the default plan, the gate and the workloads have tests of their own. E2 and E3 need
#: the stack's endpoint instance.
ELSEWHERE = {"demo", "default", "gate", "etcd", "cassandra", "e2", "e3"}
NAMES = sorted({path.stem for path in PLANS.glob("*.json")} - ELSEWHERE)
#: To be run before and after a change; it has a test of its own.
UPGRADE = "e3-cni-upgrade"
BLOCKS = 2
#: What changes nothing about what is measured with two nodes in an arm, where every pairing is one.
UNMEASURED = {"baseline", "pairing", "seed"}
#: Five times what a run takes on two cores that have nothing else to do.
DEADLINE_SECONDS = 400
#: What makes a plan long, and the percentiles for which so short a test has too few values.
SHORT: dict[str, Any] = {"seconds": 1, "count": 4, "percentiles": []}
#: Whose addresses a tool's output tells, by tool: the client's and the server's, or the server's.
BOTH, SERVER = ("client", "server"), ("server",)
TOLD = {
    **dict.fromkeys(("iperf", "iperf3"), BOTH),
    **dict.fromkeys(("netperf", "ping", "sockperf"), SERVER),
}
#: An address of the cluster's services, as EKS chooses it for a VPC in 10.0.0.0/8.
SERVICE = re.compile(r"(?<![\d.])172\.20\.\d+\.\d+")


@functools.cache
def shortened(name: str) -> dict[str, Any]:
    """A plan of docs/plans with two blocks, tests of a second or so and no warm-up."""
    plan = json.loads((PLANS / f"{name}.json").read_text("utf-8"))
    tests = []
    for entry in plan["tests"]:
        test = {"name": entry} if isinstance(entry, str) else entry
        options = type(complete(test)).model_fields
        shorter = {key: SHORT[key] for key in SHORT if key in options}
        if test["name"] == "latency-loaded":
            shorter["messages_per_second"] = 5000  # which a busy machine keeps
        tests.append({**test, **shorter})
    return {**plan, "tests": tests, "blocks": BLOCKS, "warm_up": False}


def complete(test: Mapping[str, Any]) -> TestBase:
    """A test of a plan with all of its options."""
    return registry.load_test({**plans.CATALOGUE.get(test["name"], {}), **test})


def arms_of(plan: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The arms of a plan by name, each as an object that says everything."""
    written = [
        arm if isinstance(arm, dict) else {"name": arm, "nodes": arm} for arm in plan["arms"]
    ]
    pods = {"client_network": "pod", "server_network": "pod", "via": "pod"}
    return {arm["name"]: {**pods, **arm} for arm in written}


def run_of(name: str) -> str:
    """The id of a plan's run."""
    return f"plan-{name}"


def check_run(lab: Lab, name: str) -> None:
    """The run of a plan measured what the plan says, all of it, and came to verdicts."""
    run, plan = run_of(name), shortened(name)
    ended = lab.ended(run, seconds=DEADLINE_SECONDS)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    trials = [trial for trial in lab.items(run, "trial#") if not trial.get("warm_up")]
    assert [(t["sk"], t["reason"]) for t in trials if t["status"] != "measured"] == []
    nodes = {
        "treatment": lab.nodes(placement_group=True),
        "baseline": lab.nodes(placement_group=False),
    }
    # With two nodes in an arm every pairing is the one pair there is, forward and then back.
    assert sorted(
        (int(t["block"]), t["arm"], t["test"], t["client"], t["server"]) for t in trials
    ) == sorted(
        (block, arm["name"], test["name"], *nodes[arm["nodes"]][:: 1 if block % 2 else -1])
        for block in range(1, BLOCKS + 1)
        for arm in arms_of(plan).values()
        for test in plan["tests"]
    )
    check_networks(lab, plan, trials)
    check_verdicts(lab, run, plan)


def check_networks(lab: Lab, plan: Mapping[str, Any], trials: list[dict[str, Any]]) -> None:
    """Clients and servers had the addresses of their nodes where the plan says `host`, and clients
    connected to a Service where it says `service`, and only there.
    """
    address_of = {
        node.metadata.name: next(a.address for a in node.status.addresses if a.type == "InternalIP")
        for node in lab.core.list_node().items
    }
    for trial in trials:
        arm = arms_of(plan)[trial["arm"]]
        printed = lab.read(trial["raw_key"]).decode()
        assert trial["via"] == arm["via"]
        if trial["tool"] in TOLD:
            assert (SERVICE.search(printed) is not None) == (arm["via"] == "service"), printed[
                :2000
            ]
        for side in TOLD.get(trial["tool"], ()):
            network = arm[f"{side}_network"]
            assert trial[f"{side}_network"] == network
            address = re.escape(address_of[trial[side]])
            is_printed = re.search(rf"(?<![\d.]){address}(?![\d.])", printed) is not None
            assert is_printed == (network == "host"), f"{side} of {trial['sk']}:\n{printed[:2000]}"


def check_verdicts(lab: Lab, run: str, plan: Mapping[str, Any]) -> None:
    """Every arm but the baseline has a verdict with an interval for every test."""
    verdicts = lab.items(run, "verdict#")
    baseline = plan.get("baseline", "baseline")
    assert {(v["test"], v["arm"], v["baseline"]) for v in verdicts} == {
        (test["name"], arm, baseline)
        for test in plan["tests"]
        for arm in arms_of(plan)
        if arm != baseline
    }
    for verdict in verdicts:
        low, high = verdict["ci95"]
        assert 0 < low <= verdict["ratio"] <= high
        assert verdict["verdict"] in {
            *("better", "worse", "no meaningful difference", "inconclusive"),
        }


def cells(name: str) -> set[str]:
    """What a run of a plan measures here: each test with each arm's nodes and networks, and how."""
    plan = shortened(name)
    how = {key: plan[key] for key in plan.keys() - UNMEASURED - {"arms", "tests"}}
    return {
        json.dumps(
            [how, {**arm, "name": ""}, complete(test).model_dump(mode="json")], sort_keys=True
        )
        for arm in arms_of(plan).values()
        for test in plan["tests"]
    }


def is_repeated(name: str) -> bool:
    """Does another plan measure all of it? Of two that are alike the first is run."""
    own = cells(name)
    return any(
        own < (others := cells(other)) or (own == others and other < name)
        for other in NAMES
        if other != name
    )


RUN_ONCE = [name for name in NAMES if name != UPGRADE and not is_repeated(name)]


@pytest.mark.parametrize("name", RUN_ONCE)
def test_a_plan_is_measured_to_a_verdict(lab: Lab, name: str) -> None:
    # One after the other, because runs on the same nodes take turns.
    lab.start(run_of(name), shortened(name))
    check_run(lab, name)


def test_a_run_after_a_change_is_compared_with_the_one_before(lab: Lab) -> None:
    # The plan of the upgrade measures what E3's does, so that one run of it is enough here.
    before, after = run_of("e3-nodes"), run_of(UPGRADE)
    if not lab.record(before):
        lab.start(before, shortened("e3-nodes"))
        lab.ended(before, seconds=DEADLINE_SECONDS)
    plan = {**shortened(UPGRADE), "compare_with": before}
    lab.start(after, plan)
    check_run(lab, UPGRADE)
    regressions = lab.document(after, "analysis.json")["regressions"]
    assert {(r["test"], r["arm"], r["baseline"]) for r in regressions} == {
        (test["name"], arm, f"run {before}") for test in plan["tests"] for arm in arms_of(plan)
    }
    # One earlier run does not show how much runs differ from each other.
    for regression in regressions:
        assert regression["ratio"] > 0
        assert (regression["verdict"], regression["more_runs"]) == ("inconclusive", 3)
