"""The plan: what a run measures. Pure: takes the input and what the cluster has, returns a plan.

Every mistake is found at once and told with its path in the input, so that a user corrects a plan
in one go.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rackrate import tools
from rackrate.errors import Fault, InvalidPlan
from rackrate.plan_faults import counted, faults_of, kind_of, listed, shown
from rackrate.plan_fields import MAX_TRIALS, ArmModel, PlanModel, RandomPairs
from rackrate.schedule import (
    MAX_PAIRS_PER_ITEM,
    OVERHEAD_SECONDS_PER_ROUND,
    Direction,
    Load,
    Network,
    Pairing,
    rounds_of_block,
    traffic_seconds,
    trials_of_block,
)
from rackrate.settings import Arm
from rackrate.tools import TestBase

#: Tests a plan may name without saying what they are.
CATALOGUE: Mapping[str, Mapping[str, Any]] = {
    "tcp-1": {"tool": "iperf3", "streams": 1, "seconds": 10},
    "tcp-8": {"tool": "iperf3", "streams": 8, "seconds": 10},
    "rtt": {"tool": "ping", "count": 30, "interval_seconds": 0.2},
    # The rate is one that a single flow of any current instance type can carry.
    "udp-1": {
        "tool": "iperf3",
        "protocol": "udp",
        "streams": 1,
        "seconds": 10,
        "bits_per_second": 1_000_000_000,
    },
    "iperf2-32": {"tool": "iperf", "streams": 32, "seconds": 10},
    "latency": {"tool": "sockperf", "mode": "ping-pong", "seconds": 10},
    "latency-loaded": {
        "tool": "sockperf",
        "mode": "under-load",
        "seconds": 10,
        "messages_per_second": 50_000,
        "reply_every": 100,
    },
}

#: Limits. The state machine stops a run after two days; a plan may ask for half of that.
MAX_PLAN_BYTES = 32 * 1024
MAX_RUN_SECONDS = 86_400
LEAST_NODES = 2


@dataclass(frozen=True)
class PlanArm:
    """An arm of a plan.

    Attributes:
        name: its name in the run.
        stack_arm: the stack's arm whose nodes it uses.
        client_network: network namespace of its clients.
        server_network: that of its servers.
    """

    name: str
    stack_arm: Arm
    client_network: Network = "pod"
    server_network: Network = "pod"

    def to_json(self) -> str | dict[str, str]:
        """The arm as a plan has it: a name where that says everything."""
        if self == PlanArm(self.stack_arm.name, self.stack_arm):
            return self.name
        return {
            "name": self.name,
            "nodes": self.stack_arm.name,
            "client_network": self.client_network,
            "server_network": self.server_network,
        }


@dataclass(frozen=True)
class Plan:
    """A valid plan, with every default filled in.

    Attributes:
        arms: the arms to measure, the baseline among them.
        baseline: the name of the arm the others are compared with.
        tests: what each pair runs in each block.
        blocks: how often everything is repeated.
        pairing: which pairs of an arm's nodes are measured.
        direction: who of a pair is the client.
        load: how many pairs are measured at a time.
        warm_up: does every pair run something short before the first block?
        compare_with: id of an earlier run to compare this one with, or None.
        seed: decides every order that is left to chance.
        threshold: a difference smaller than this share does not matter.
        tolerated_loss: share of trials that may be lost before the run counts as failed.
        dry_run: stop after planning?
    """

    arms: tuple[PlanArm, ...]
    baseline: str
    tests: tuple[TestBase, ...]
    blocks: int
    pairing: Pairing
    direction: Direction
    load: Load
    warm_up: bool
    compare_with: str | None
    seed: int
    threshold: float
    tolerated_loss: float
    dry_run: bool

    @property
    def stack_arms(self) -> tuple[Arm, ...]:
        """The stack's arms whose nodes the run uses, each once."""
        return tuple({arm.stack_arm.name: arm.stack_arm for arm in self.arms}.values())

    def to_json(self) -> dict[str, Any]:
        """The plan as an input that says everything."""
        pairing: str | dict[str, int] = self.pairing.kind
        if self.pairing.kind == "random":
            pairing = {"random": self.pairing.count}
        return {
            "arms": [arm.to_json() for arm in self.arms],
            "baseline": self.baseline,
            "tests": [test.model_dump() for test in self.tests],
            "blocks": self.blocks,
            "pairing": pairing,
            "direction": self.direction,
            "load": self.load,
            "warm_up": self.warm_up,
            "compare_with": self.compare_with,
            "seed": self.seed,
            "threshold": self.threshold,
            "tolerated_loss": self.tolerated_loss,
            "dry_run": self.dry_run,
        }


def check_plan(
    raw: object,
    *,
    stack_arms: Sequence[Arm],
    nodes: Mapping[str, int],
    host_network: bool,
    run_id: str,
) -> Plan:
    """Reads and checks a plan.

    Args:
        raw: the execution's input, any JSON value.
        stack_arms: the arms the stack has.
        nodes: number of Ready nodes of each of those arms, by name.
        host_network: does the stack allow pods in the network of their nodes?
        run_id: gives the seed of a plan that has none, so that a repeated call plans the same.

    Raises:
        InvalidPlan: with every fault.
    """
    faults: list[Fault] = []
    model = _read_fields(raw, faults)
    given = raw if isinstance(raw, dict) else {}
    arms = _read_arms(model, given, stack_arms, faults)
    _check_nodes(arms, nodes, faults)
    _check_networks(arms, host_network, faults)
    _check_differences(arms, faults)
    baseline = _choose_baseline(model, list(arms.values()), stack_arms, faults)
    tests = _read_tests(model.tests, faults)
    pairing = (
        Pairing("random", model.pairing.random)
        if isinstance(model.pairing, RandomPairs)
        else Pairing(model.pairing)
    )
    if model.compare_with == run_id:
        faults.append(
            Fault("compare_with", "is this very run", "name a run that has ended, or leave it out")
        )
    if not any(fault.path.split("[")[0] == "arms" for fault in faults):
        _check_pairing(pairing, arms.values(), nodes, faults)
    if not faults:
        _check_size(model, pairing, list(arms.values()), tests, nodes, faults)
    if faults:
        raise InvalidPlan(faults)
    return Plan(
        arms=tuple(arms.values()),
        baseline=baseline,
        tests=tuple(tests),
        blocks=model.blocks,
        pairing=pairing,
        direction=model.direction,
        load=model.load,
        warm_up=model.warm_up,
        compare_with=model.compare_with,
        seed=zlib.crc32(run_id.encode()) if model.seed is None else model.seed,
        threshold=model.threshold,
        tolerated_loss=model.tolerated_loss,
        dry_run=model.dry_run,
    )


def _read_fields(raw: object, faults: list[Fault]) -> PlanModel:
    """The fields that are right; defaults stand in for those that are not."""
    if not isinstance(raw, dict):
        faults.append(
            Fault("$", f"must be an object, not {kind_of(raw)}", "write {} or an object of fields")
        )
        return PlanModel()
    size = len(json.dumps(raw))
    if size > MAX_PLAN_BYTES:
        faults.append(
            Fault(
                "$",
                f"is {size} bytes long, more than {MAX_PLAN_BYTES}",
                "leave out what the defaults say already, or split it into several runs",
            )
        )
        return PlanModel()
    try:
        return PlanModel.model_validate(raw)
    except ValidationError as error:
        faults.extend(faults_of(error, PlanModel, ""))
        wrong = {str(detail["loc"][0]) for detail in error.errors()}
        return PlanModel.model_validate({k: v for k, v in raw.items() if k not in wrong})


def _read_arms(
    model: PlanModel,
    given: Mapping[str, Any],
    stack_arms: Sequence[Arm],
    faults: list[Fault],
) -> dict[str, PlanArm]:
    """The arms that can be read, by their path in the plan."""
    by_name = {arm.name: arm for arm in stack_arms}
    entries = list(by_name) if model.arms is None else model.arms
    arms: dict[str, PlanArm] = {}
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"arms[{index}]"
        arm = _read_arm(entry, path, by_name, faults)
        name = entry if isinstance(entry, str) else _name_of(entry)
        if name is not None and name in names:
            faults.append(
                Fault(
                    path if isinstance(entry, str) else f"{path}.name",
                    f"the arm {shown(name)} is named twice",
                    "name each arm once",
                )
            )
        elif arm is not None:
            arms[path] = arm
        if name is not None:
            names.add(name)
    if model.arms is not None and len(entries) < 2:
        faults.append(
            Fault("arms", "a comparison needs two arms", f"name two of {listed(by_name)}")
        )
    if given.get("arms", ()) is None:
        faults.append(
            Fault("arms", "must be a list, not null", "leave it out to measure every arm")
        )
    return arms


def _read_arm(
    entry: Any, path: str, by_name: Mapping[str, Arm], faults: list[Fault]
) -> PlanArm | None:
    if isinstance(entry, str):
        if entry in by_name:
            return PlanArm(entry, by_name[entry])
        faults.append(
            Fault(path, f"there is no arm {shown(entry)}", f"use one of {listed(by_name)}")
        )
        return None
    if not isinstance(entry, dict):
        faults.append(
            Fault(
                path,
                f"must be a name or an object, not {kind_of(entry)}",
                f"use one of {listed(by_name)}, or an object with a name and nodes",
            )
        )
        return None
    try:
        model = ArmModel.model_validate(entry)
    except ValidationError as error:
        faults.extend(faults_of(error, ArmModel, f"{path}."))
        return None
    if model.nodes not in by_name:
        faults.append(
            Fault(
                f"{path}.nodes",
                f"the stack has no arm {shown(model.nodes)}",
                f"use one of {listed(by_name)}",
            )
        )
        return None
    if model.name in by_name and model.name != model.nodes:
        faults.append(
            Fault(
                f"{path}.name",
                f"{shown(model.name)} is an arm of the stack, and this one uses other nodes",
                "give it another name",
            )
        )
        return None
    return PlanArm(model.name, by_name[model.nodes], model.client_network, model.server_network)


def _check_nodes(
    arms: Mapping[str, PlanArm], nodes: Mapping[str, int], faults: list[Fault]
) -> None:
    for path, arm in arms.items():
        ready = nodes[arm.stack_arm.name]
        if ready < LEAST_NODES:
            faults.append(
                Fault(
                    path,
                    f"the arm {arm.name!r} has {counted(ready, 'Ready node')}; a pair needs"
                    f" {LEAST_NODES}",
                    f"wait for, repair or enlarge the {arm.stack_arm.whereabouts}",
                )
            )


def _check_networks(arms: Mapping[str, PlanArm], host_network: bool, faults: list[Fault]) -> None:
    for path, arm in arms.items():
        for side in ("client_network", "server_network"):
            if getattr(arm, side) == "host" and not host_network:
                faults.append(
                    Fault(
                        f"{path}.{side}",
                        "the stack does not let pods use the network of their nodes",
                        "update the stack with HostNetwork=true, or write 'pod'",
                    )
                )


def _check_differences(arms: Mapping[str, PlanArm], faults: list[Fault]) -> None:
    """Arms that are the same in every way would be compared with themselves."""
    known: dict[tuple[str, Network, Network], str] = {}
    for path, arm in arms.items():
        kind = (arm.stack_arm.name, arm.client_network, arm.server_network)
        if kind in known:
            faults.append(
                Fault(
                    path,
                    f"{arm.name!r} and {known[kind]!r} are the same nodes in the same networks",
                    "let them differ in nodes, client_network or server_network",
                )
            )
        known.setdefault(kind, arm.name)


def _choose_baseline(
    model: PlanModel, arms: Sequence[PlanArm], stack_arms: Sequence[Arm], faults: list[Fault]
) -> str:
    names = [arm.name for arm in arms]
    if model.baseline is None:
        on_its_nodes = [arm.name for arm in arms if arm.stack_arm.baseline]
        itself = [arm.name for arm in arms if arm.stack_arm.baseline and arm.to_json() == arm.name]
        if itself or len(on_its_nodes) == 1:
            return (itself or on_its_nodes)[0]
        if len(arms) >= 2:
            problem = (
                "none of the chosen arms is the stack's baseline"
                if not on_its_nodes
                else f"{listed(on_its_nodes)} all use the nodes of the stack's baseline"
            )
            faults.append(Fault("baseline", problem, f"name one of {listed(names)}"))
        return ""
    if model.baseline not in names:
        known = names or [arm.name for arm in stack_arms]
        faults.append(
            Fault(
                "baseline",
                f"{shown(model.baseline)} is not among the arms of the plan",
                f"use one of {listed(known)}",
            )
        )
    return model.baseline


def _read_tests(entries: Sequence[Any], faults: list[Fault]) -> list[TestBase]:
    tests: list[TestBase] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"tests[{index}]"
        test = _read_test(entry, path, faults)
        name = entry if isinstance(entry, str) else _name_of(entry)
        if name is not None and name in names:
            faults.append(
                Fault(
                    path if isinstance(entry, str) else f"{path}.name",
                    f"the name {shown(name)} is used twice",
                    "give each test a name of its own",
                )
            )
        if name is not None:
            names.add(name)
        if test is not None:
            tests.append(test)
    return tests


def _name_of(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _read_test(entry: Any, path: str, faults: list[Fault]) -> TestBase | None:
    if isinstance(entry, str):
        if entry in CATALOGUE:
            return tools.load_test({"name": entry, **CATALOGUE[entry]})
        faults.append(
            Fault(
                path,
                f"there is no test {shown(entry)}",
                f"use one of {listed(CATALOGUE)}, or an object with a name and a tool",
            )
        )
        return None
    if not isinstance(entry, dict):
        faults.append(
            Fault(
                path,
                f"must be a name or an object, not {kind_of(entry)}",
                f"use one of {listed(CATALOGUE)}, or an object with a name and a tool",
            )
        )
        return None
    name = _name_of(entry)
    known = CATALOGUE.get(name or "", {})
    tool = entry.get("tool", known.get("tool"))
    if tool is None:
        if "name" not in entry:
            faults.append(Fault(f"{path}.name", "is missing", "give the test a name"))
        faults.append(
            Fault(
                f"{path}.tool",
                "is missing, and the name is none of the catalogue's",
                f"use one of {listed(tools.names())}, or one of the names {listed(CATALOGUE)}",
            )
        )
        return None
    if not isinstance(tool, str) or tool not in tools.names():
        faults.append(
            Fault(
                f"{path}.tool",
                f"there is no tool {shown(tool)}",
                f"use one of {listed(tools.names())}",
            )
        )
        return None
    # What the catalogue says of a test holds only for its own tool.
    defaults = known if known.get("tool") == tool else {"tool": tool}
    model = tools.test_class(tool)
    try:
        return model.model_validate({**defaults, **entry})
    except ValidationError as error:
        faults.extend(faults_of(error, model, f"{path}."))
        return None


def _check_pairing(
    pairing: Pairing, arms: Iterable[PlanArm], nodes: Mapping[str, int], faults: list[Fault]
) -> None:
    if pairing.kind != "random":
        return
    fewest = min(arms, key=lambda arm: nodes[arm.stack_arm.name])
    number = nodes[fewest.stack_arm.name]
    possible = Pairing("mesh").pairs(number)
    if pairing.count > possible:
        faults.append(
            Fault(
                "pairing.random",
                f"the {number} nodes of the arm {fewest.name!r} make {counted(possible, 'pair')},"
                f" fewer than {pairing.count}",
                "ask for fewer, or for the pairing 'mesh', which is all there are",
            )
        )


def _check_size(
    model: PlanModel,
    pairing: Pairing,
    arms: Sequence[PlanArm],
    tests: Sequence[TestBase],
    nodes: Mapping[str, int],
    faults: list[Fault],
) -> None:
    sizes = {arm.name: nodes[arm.stack_arm.name] for arm in arms}
    trials = (
        model.blocks
        * len(tests)
        * sum(trials_of_block(pairing, model.direction, size) for size in sizes.values())
    )
    if trials > MAX_TRIALS:
        faults.append(
            Fault(
                "blocks",
                f"the plan has {trials} trials, more than {MAX_TRIALS}",
                "ask for fewer blocks, fewer tests or a pairing with fewer pairs",
            )
        )
    # Arms of the same nodes take turns; arms of others are measured at the same time.
    rounds: Counter[str] = Counter()
    for arm in arms:
        rounds[arm.stack_arm.name] += rounds_of_block(
            pairing, model.direction, model.load, sizes[arm.name]
        )
    seconds = (
        model.blocks * max(rounds.values()) * (traffic_seconds(tests) + OVERHEAD_SECONDS_PER_ROUND)
    )
    if seconds > MAX_RUN_SECONDS:
        faults.append(
            Fault(
                "blocks",
                f"the plan would take {seconds:.0f} s, more than {MAX_RUN_SECONDS} s",
                "ask for fewer blocks, shorter tests, a pairing with fewer pairs, or the load"
                " 'together'",
            )
        )
    at_once = sum(
        min(pairing.pairs(count), count // 2)
        for count in {arm.stack_arm.name: sizes[arm.name] for arm in arms}.values()
    )
    if model.load == "together" and at_once > MAX_PAIRS_PER_ITEM:
        faults.append(
            Fault(
                "load",
                f"a round would hold {at_once} pairs, more than {MAX_PAIRS_PER_ITEM}",
                "write 'isolated', or {\"random\": k} with fewer pairs as the pairing",
            )
        )
