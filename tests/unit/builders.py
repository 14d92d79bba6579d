"""Documents with defaults, for tests that care about a field or two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rackrate.measure.trials import Trial
from rackrate.plan.arms import ArmChoice
from rackrate.plan.model import CATALOGUE, Plan
from rackrate.plan.planned_run import PlannedRun
from rackrate.registry import load_test
from rackrate.settings import NODE_GROUP_LABEL
from rackrate.tools.base import TestBase
from rackrate_contract.arms import Arm, InstanceNetwork, InstancePlacement, Node
from rackrate_contract.estimates import Cost, Estimates
from rackrate_contract.selectors import Selector
from rackrate_contract.trials import TrialKey
from rackrate_contract.verdicts import Baseline, OnMetric, Pairs, Verdict

TESTS = tuple(load_test({"name": name, **CATALOGUE[name]}) for name in ("tcp-1", "tcp-8", "rtt"))


def network(baseline: float | None, peak: float | None) -> InstanceNetwork:
    """The bandwidth of an instance, in bit/s."""
    return InstanceNetwork(baseline_bits_per_second=baseline, peak_bits_per_second=peak)


C5_LARGE = network(0.75e9, 10e9)


def node(name: str, **facts: Any) -> Node:
    """A node with all facts that guards use."""
    usual = {
        "instance_id": "i-1",
        "instance_type": "c5.large",
        "zone": "us-east-1a",
        "image": "ami-1",
        "kernel": "6.12",
        "kubernetes": "v1.36",
        "capacity_type": "on-demand",
        "ec2_placement": InstancePlacement(tenancy="default"),
    }
    return Node(name=name, **{**usual, **facts})


def arm(name: str, nodes: Iterable[str | Node] = (), **more: Any) -> Arm:
    """An arm of pods on c5.large, without a placement group."""
    fields = {
        "stack_arm": name,
        "client_network": "pod",
        "server_network": "pod",
        "placement": "none",
        "baseline": False,
        "node_groups": (),
        "selector": Selector.parse("pool=any"),
        "ena_express": False,
        "network": C5_LARGE,
        "network_scale": None,
    }
    all_nodes = tuple(each if isinstance(each, Node) else node(each) for each in nodes)
    return Arm(name=name, nodes=all_nodes, **{**fields, **more})


def plan(**changes: Any) -> Plan:
    """The default plan of a stack with the arms treatment and baseline."""
    fields = {
        "arms": tuple(ArmChoice(name=each, nodes=each) for each in ("treatment", "baseline")),
        "baseline": "baseline",
        "tests": TESTS,
        "blocks": 6,
        "pairing": "one",
        "direction": "alternate",
        "load": "isolated",
        "warm_up": True,
        "compare_with": (),
        "seed": 42,
        "threshold": 0.05,
        "tolerated_loss": 0.1,
        "if_busy": "wait",
        "dry_run": False,
    }
    return Plan(**{**fields, **changes})


def trial(**changes: Any) -> Trial:
    """A measured trial of `tcp-1` in the first block."""
    fields = {
        "status": "measured",
        "attempt": 1,
        "block": 1,
        "arm": "treatment",
        "test": "tcp-1",
        "client": "node-a",
        "server": "node-b",
        "round": 1,
        "tool": "iperf3",
        "metric": "throughput",
        "unit": "bit/s",
        "placement": "cluster",
        "client_network": "pod",
        "server_network": "pod",
        "value": 9.5e9,
        "values": {"throughput": 9.5e9},
    }
    return Trial(**{**fields, **changes})


def failed_trial(**changes: Any) -> Trial:
    """The same trial as `trial`, but failed."""
    return trial(**{"status": "failed", "reason": "refused", "value": None, "values": {}} | changes)


def verdict(**changes: Any) -> Verdict:
    """A verdict that the treatment is better on `tcp-1`."""
    fields = {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": Baseline("baseline"),
        "arm_median": 9.5e9,
        "baseline_median": 4.9e9,
        "ratio": 1.94,
        "ci95": (1.9, 1.98),
        "ci_simultaneous": (1.88, 2.0),
        "confidence_simultaneous": 0.98,
        "verdict": "better",
        "reason": None,
        "blocks": 6,
        "pairs": Pairs(arm=1, baseline=1),
        "scope": "these nodes",
        "claim": "94 % higher",
        "more_blocks": None,
        "threshold": 0.05,
        "ceiling": None,
        "marks": {},
        "steadiness": None,
    }
    return Verdict(**{**fields, **changes})


PLACEMENTS = {"treatment": "cluster", "baseline": "none"}


def usual_arm(name: str, nodes: Iterable[str | Node], **more: Any) -> Arm:
    """The arm `treatment` or `baseline` of a stack that made both node groups."""
    fields = {
        "placement": PLACEMENTS[name],
        "baseline": name == "baseline",
        "node_groups": (f"ng-{name}",),
        "selector": Selector.parse(f"{NODE_GROUP_LABEL}=ng-{name}"),
    }
    return arm(name, nodes, **{**fields, **more})


def estimates(**changes: Any) -> Estimates:
    """An estimate with some time and without cost."""
    cost = Cost(
        region="us-east-1",
        lines=(),
        usd=0.0,
        usd_of_run=0.0,
        unknown=(),
        notes=(),
        not_included=(),
        summary=(),
    )
    fields = {
        "seconds": 300.0,
        "block_seconds": 40.0,
        "trials": 24,
        "bytes_per_node": {},
        "state_transitions": 112,
        "cost": cost,
        "guards": (),
    }
    return Estimates(**{**fields, **changes})


def planned_run(plan: Plan, arms: Iterable[Arm], **changes: Any) -> PlannedRun:
    """The plan.json of a plan."""
    fields = {
        "run_id": "run-1",
        "execution_arn": "arn:aws:states:us-east-1:123456789012:execution:rackrate:run-1",
        "plan": plan,
        "compare_with_baseline": None,
        "metrics": tuple(
            OnMetric(test=test.name, metric=metric.name, unit=metric.unit, better=metric.better)
            for test in plan.tests
            for metric in test.metrics
        ),
        "arms": tuple(arms),
        "placeholder_nodes": False,
        "image": "example.test/tools:1",
        "kubernetes_version": "1.36",
        "estimates": estimates(),
    }
    return PlannedRun(**{**fields, **changes})


def trial_of(key: TrialKey, test: TestBase, value: float | None, **changes: Any) -> Trial:
    """The trial of a key. Without a value it has failed."""
    primary = test.primary
    fields = {
        **vars(key),
        "warm_up": key.block == 0,
        "tool": test.tool,
        "metric": primary.name,
        "unit": primary.unit,
        "placement": PLACEMENTS[key.arm],
    }
    if value is None:
        return failed_trial(**{**fields, "reason": "lost", **changes})
    return trial(**{**fields, "value": value, "values": {primary.name: value}, **changes})
