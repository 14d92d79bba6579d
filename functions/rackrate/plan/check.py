"""The check of a plan. It reports every mistake at once, with its path in the input. Pure."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rackrate import registry
from rackrate.errors import Fault, InvalidPlan
from rackrate.plan.arms import ArmChoice, Network, PairZones, Via
from rackrate.plan.capacity import LEAST_NODES
from rackrate.plan.durations import round_seconds
from rackrate.plan.faults import check_name, faults_of, kind_of, shown, whole_numbers
from rackrate.plan.fields import MAX_TRIALS, STARTED_BY, Blocks, PlanInput
from rackrate.plan.images import programs_lacking
from rackrate.plan.items import MAX_PAIRS_PER_ITEM, MAX_TRIALS_PER_ITEM
from rackrate.plan.model import CATALOGUE, Plan, names_of
from rackrate.plan.pairing import Pairing, rounds_of_block, trials_of_block
from rackrate.plan.workloads import pair_tests, workloads
from rackrate.settings import StackArm
from rackrate.tools.base import TestBase
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB, Volume, WorkloadTest
from rackrate_text.units import duration
from rackrate_text.words import counted, listed, nearest

#: Limits of a plan. The state machine stops a run after two days; a plan may ask for one.
MAX_PLAN_BYTES = 32 * 1024
MAX_RUN_SECONDS = 86_400


def check_plan(
    raw: object,
    *,
    stack_arms: Sequence[StackArm],
    nodes: Mapping[str, int],
    host_network: bool,
    run_id: str,
    image: str = "",
    allowed_images: Collection[str] = (),
    load_nodes: int = 0,
    is_ipv6: bool = False,
) -> Plan:
    """Read and check a plan.

    Args:
        raw: the execution's input, any JSON value.
        stack_arms: the stack's arms.
        nodes: number of Ready nodes of each of those arms, by name.
        host_network: whether the stack allows pods in the network of their nodes.
        run_id: the source of the seed for a plan without one, so that a repeated call gives the
            same plan.
        image: the image of the pods; empty if it is not known.
        allowed_images: the other images that the plan may ask for.
        load_nodes: number of Ready load nodes.
        is_ipv6: whether the pods have IPv6 addresses only.

    Raises:
        InvalidPlan: the plan has mistakes; the error lists every one.
    """
    faults: list[Fault] = []
    check_name(run_id, faults)
    raw = whole_numbers(raw)
    model = _read_fields(raw, faults)
    given = raw if isinstance(raw, dict) else {}
    arms = _read_arms(model, given, stack_arms, faults)
    _check_nodes(arms, stack_arms, nodes, faults)
    _check_networks(arms, host_network, faults)
    _check_differences(arms, faults)
    baseline = _choose_baseline(model, list(arms.values()), stack_arms, faults)
    tests = _read_tests(model.tests, image, allowed_images, faults, is_ipv6=is_ipv6)
    _check_ways(arms, tests, faults)
    pairing = Pairing.of(model.pairing)
    earlier = names_of(model.compare_with)
    _check_earlier_names(earlier, run_id, faults)
    if not any(fault.path.split("[")[0] == "arms" for fault in faults):
        _check_pairing(pairing, arms.values(), nodes, faults)
    if not faults:
        tests = _with_members(tests, arms, stack_arms, nodes, load_nodes, faults)
    if not faults:
        _check_volumes(tests, len(arms), faults)
    if not faults:
        _check_size(model, pairing, list(arms.values()), tests, nodes, load_nodes, faults)
    if faults:
        raise InvalidPlan(faults)
    return Plan.from_fields(
        model,
        arms=tuple(arms.values()),
        baseline=baseline,
        tests=tuple(tests),
        blocks=Blocks.of(model.blocks),
        compare_with=earlier,
        seed=zlib.crc32(run_id.encode()) if model.seed is None else model.seed,
    )


def earlier_path(names: Sequence[str], index: int) -> str:
    """The path of one of the names in `compare_with`."""
    return "compare_with" if len(names) == 1 else f"compare_with[{index}]"


def _check_earlier_names(names: Sequence[str], run_id: str, faults: list[Fault]) -> None:
    for index, name in enumerate(names):
        path = earlier_path(names, index)
        if name == run_id:
            remedy = "name a run that has ended, or leave it out"
            faults.append(Fault(path, "is this very run", remedy))
        if name in names[:index]:
            faults.append(Fault(path, f"{shown(name)} is named twice", "name each run once"))


def _read_fields(raw: object, faults: list[Fault]) -> PlanInput:
    """The valid fields of a plan; invalid ones have their defaults."""
    if not isinstance(raw, dict):
        faults.append(
            Fault("$", f"must be an object, not {kind_of(raw)}", "write {} or an object of fields")
        )
        return PlanInput()
    raw = {name: value for name, value in raw.items() if name != STARTED_BY}
    size = len(json.dumps(raw))
    if size > MAX_PLAN_BYTES:
        faults.append(
            Fault(
                "$",
                f"is {size} bytes long, more than {MAX_PLAN_BYTES}",
                "leave out what the defaults say already, or split it into several runs",
            )
        )
        return PlanInput()
    try:
        return PlanInput.model_validate(raw)
    except ValidationError as error:
        faults.extend(faults_of(error, PlanInput, ""))
        wrong = {str(detail["loc"][0]) for detail in error.errors()}
        return PlanInput.model_validate({k: v for k, v in raw.items() if k not in wrong})


def _read_arms(
    model: PlanInput,
    given: Mapping[str, Any],
    stack_arms: Sequence[StackArm],
    faults: list[Fault],
) -> dict[str, ArmChoice]:
    """The valid arms, by their path in the plan."""
    by_name = {arm.name: arm for arm in stack_arms}
    entries = list(by_name) if model.arms is None else model.arms
    arms: dict[str, ArmChoice] = {}
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"arms[{index}]"
        arm = _read_arm(entry, path, by_name, faults)
        twice = _named_twice(entry, path, names, "name each arm once")
        faults += twice
        if arm is not None and not twice:
            arms[path] = arm
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
    entry: Any, path: str, by_name: Mapping[str, StackArm], faults: list[Fault]
) -> ArmChoice | None:
    if isinstance(entry, str):
        if entry in by_name:
            return ArmChoice(name=entry, nodes=entry)
        faults.append(
            Fault(
                path,
                f"there is no arm {shown(entry)}{nearest(entry, by_name)}",
                f"use one of {listed(by_name, 'or')}",
            )
        )
        return None
    if not isinstance(entry, dict):
        faults.append(
            Fault(
                path,
                f"must be a name or an object, not {kind_of(entry)}",
                f"use one of {listed(by_name, 'or')}, or an object with a name and nodes",
            )
        )
        return None
    try:
        model = ArmChoice.model_validate(entry)
    except ValidationError as error:
        faults.extend(faults_of(error, ArmChoice, f"{path}."))
        return None
    if model.nodes not in by_name:
        faults.append(
            Fault(
                f"{path}.nodes",
                f"the stack has no arm {shown(model.nodes)}{nearest(model.nodes, by_name)}",
                f"use one of {listed(by_name, 'or')}",
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
    return model


def _check_nodes(
    arms: Mapping[str, ArmChoice],
    stack_arms: Sequence[StackArm],
    nodes: Mapping[str, int],
    faults: list[Fault],
) -> None:
    whereabouts = {arm.name: arm.whereabouts for arm in stack_arms}
    for path, arm in arms.items():
        ready = nodes[arm.nodes]
        if ready < LEAST_NODES:
            faults.append(
                Fault(
                    path,
                    f"the arm {arm.name!r} has {counted(ready, 'Ready node')}; a pair needs"
                    f" {LEAST_NODES}",
                    f"wait for, repair or enlarge the {whereabouts[arm.nodes]}",
                )
            )


def _check_networks(arms: Mapping[str, ArmChoice], host_network: bool, faults: list[Fault]) -> None:
    for path, arm in arms.items():
        networks = {"client_network": arm.client_network, "server_network": arm.server_network}
        for side, network in networks.items():
            if network == "host" and not host_network:
                faults.append(
                    Fault(
                        f"{path}.{side}",
                        "the stack does not let pods use the network of their nodes",
                        "update the stack with HostNetwork=true, or write 'pod'",
                    )
                )


def _check_ways(
    arms: Mapping[str, ArmChoice], tests: Sequence[TestBase], faults: list[Fault]
) -> None:
    """Report arms whose clients connect to a Service, in a plan with tests that cannot."""
    cannot = [test.name for test in tests if not test.through_service]
    for path, arm in arms.items():
        if arm.via == "service" and cannot:
            faults.append(
                Fault(
                    f"{path}.via",
                    f"{listed(cannot)} cannot go through a Service of the servers",
                    f"leave {listed(cannot)} out of the tests, or write 'pod'",
                )
            )


def _check_differences(arms: Mapping[str, ArmChoice], faults: list[Fault]) -> None:
    """Report arms that are equal in everything but their names."""
    known: dict[tuple[str, Network, Network, Via, PairZones], str] = {}
    for path, arm in arms.items():
        kind = (arm.nodes, arm.client_network, arm.server_network, arm.via, arm.pairs)
        if kind in known:
            faults.append(
                Fault(
                    path,
                    f"{arm.name!r} and {known[kind]!r} are the same nodes in the same networks",
                    "let them differ in nodes, client_network, server_network, via or pairs",
                )
            )
        known.setdefault(kind, arm.name)


def _choose_baseline(
    model: PlanInput, arms: Sequence[ArmChoice], stack_arms: Sequence[StackArm], faults: list[Fault]
) -> str:
    names = [arm.name for arm in arms]
    if model.baseline is None:
        baselines = {arm.name for arm in stack_arms if arm.baseline}
        on_its_nodes = [arm.name for arm in arms if arm.nodes in baselines]
        itself = [arm.name for arm in arms if arm.nodes in baselines and arm.is_plain]
        if itself or len(on_its_nodes) == 1:
            return (itself or on_its_nodes)[0]
        if len(arms) >= 2:
            problem = (
                "none of the chosen arms is the stack's baseline"
                if not on_its_nodes
                else f"{listed(on_its_nodes)} all use the nodes of the stack's baseline"
            )
            faults.append(Fault("baseline", problem, f"name one of {listed(names, 'or')}"))
        return ""
    if model.baseline not in names:
        known = names or [arm.name for arm in stack_arms]
        faults.append(
            Fault(
                "baseline",
                f"{shown(model.baseline)} is not among the arms of the plan"
                + nearest(model.baseline, known),
                f"use one of {listed(known, 'or')}",
            )
        )
    return model.baseline


def ipv6_faults(raw: object) -> list[Fault]:
    """The tests of a plan that do not measure between IPv6 addresses; see `check_plan`."""
    faults: list[Fault] = []
    model = _read_fields(raw, [])
    for index, entry in enumerate(model.tests):
        if (test := _read_test(entry, "", [])) is not None:
            faults += _ipv6_faults(test, f"tests[{index}]")
    return faults


def _ipv6_faults(test: TestBase, path: str) -> Iterable[Fault]:
    if test.no_ipv6 is not None:
        why, remedy = test.no_ipv6
        yield Fault(path, f"the cluster's pods have IPv6 addresses, and {test.tool} {why}", remedy)


def _named_twice(entry: Any, path: str, names: set[str], remedy: str) -> list[Fault]:
    """The fault of an arm or a test whose name is among the names; adds it to them."""
    name = entry if isinstance(entry, str) else _name_of(entry)
    if name in names:
        path = path if isinstance(entry, str) else f"{path}.name"
        return [Fault(path, f"the name {shown(name)} is used twice", remedy)]
    if name is not None:
        names.add(name)
    return []


def _read_tests(
    entries: Sequence[Any],
    image: str,
    allowed_images: Collection[str],
    faults: list[Fault],
    *,
    is_ipv6: bool,
) -> list[TestBase]:
    tests: list[TestBase] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"tests[{index}]"
        test = _read_test(entry, path, faults)
        faults += _named_twice(entry, path, names, "give each test a name of its own")
        if test is not None:
            tests.append(test)
            faults.extend(_image_faults(test, path, {image, *allowed_images}))
            if is_ipv6:
                faults.extend(_ipv6_faults(test, path))
            if lacking := programs_lacking(image, test):
                faults.append(
                    Fault(
                        path,
                        f"{test.name} needs {listed(lacking)}, which the image {image} lacks",
                        'update the stack with "ToolImage=build", whose image has all tools, or'
                        " leave the test out",
                    )
                )
    return tests


def _image_faults(test: TestBase, path: str, allowed: Collection[str]) -> Iterable[Fault]:
    """The images of a workload that the stack does not allow, since they may run any code."""
    for field in ("image", "load_image") if isinstance(test, WorkloadTest) else ():
        if (image := getattr(test, field)) is not None and image not in allowed:
            remedy = "leave it out, or update the stack with this image in AllowedImages"
            yield Fault(f"{path}.{field}", f"the stack does not allow {image}", remedy)


def _name_of(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _read_test(entry: Any, path: str, faults: list[Fault]) -> TestBase | None:
    if isinstance(entry, str):
        if entry in CATALOGUE:
            return registry.load_test({"name": entry, **CATALOGUE[entry]})
        faults.append(
            Fault(
                path,
                f"there is no test {shown(entry)}{nearest(entry, CATALOGUE)}",
                f"use one of {listed(CATALOGUE, 'or')}, or an object with a name and a tool",
            )
        )
        return None
    if not isinstance(entry, dict):
        faults.append(
            Fault(
                path,
                f"must be a name or an object, not {kind_of(entry)}",
                f"use one of {listed(CATALOGUE, 'or')}, or an object with a name and a tool",
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
                "is missing, and the name is none of the catalogue's"
                + nearest(name or "", CATALOGUE),
                f"use one of {listed(registry.names(), 'or')}, or a name of the catalogue:"
                f" {listed(CATALOGUE, 'or')}",
            )
        )
        return None
    if not isinstance(tool, str) or tool not in registry.names():
        faults.append(
            Fault(
                f"{path}.tool",
                f"there is no tool {shown(tool)}{nearest(str(tool), registry.names())}",
                f"use one of {listed(registry.names(), 'or')}",
            )
        )
        return None
    # The catalogue's options of a test apply only to its own tool.
    defaults = known if known.get("tool") == tool else {"tool": tool}
    model = registry.test_class(tool)
    try:
        return model.model_validate({**defaults, **entry})
    except ValidationError as error:
        faults.extend(faults_of(error, model, f"{path}."))
        return None


def _with_members(
    tests: Sequence[TestBase],
    arms: Mapping[str, ArmChoice],
    stack_arms: Sequence[StackArm],
    nodes: Mapping[str, int],
    load_nodes: int,
    faults: list[Fault],
) -> list[TestBase]:
    """The tests, with the number of members of each workload, which every arm has nodes for."""
    found: list[TestBase] = []
    if workloads(tests):
        _check_arms_of_workloads(arms, faults)
    whereabouts = {arm.name: arm.whereabouts for arm in stack_arms}
    fewest = min(arms.values(), key=lambda arm: nodes[arm.nodes], default=None)
    for index, test in enumerate(tests):
        if not isinstance(test, WorkloadTest) or fewest is None:
            found.append(test)
            continue
        path, there = f"tests[{index}]", nodes[fewest.nodes]
        loaders = test.loaders or max(1, load_nodes)
        # Without load nodes, each load pod takes a node of the arm.
        room = there if load_nodes else there - loaders
        members = test.members
        if members is None:
            members = max(test.least_members, min(room, test.most_members))
        settled = test.model_copy(update={"members": members, "loaders": loaders})
        found.append(settled)
        if test.members is None:
            # Other fields may need more members than there are nodes for.
            try:
                type(test).model_validate(settled.model_dump())
            except ValidationError as error:
                faults.extend(faults_of(error, type(test), f"{path}."))
                continue
        told = f"the arm {fewest.name!r} has {counted(there, 'Ready node')}"
        enlarge = f"enlarge the {whereabouts[fewest.nodes]}"
        if members > there:
            problem = f"{told}, fewer than the {members} members"
            faults.append(Fault(f"{path}.members", problem, f"write fewer, or {enlarge}"))
        elif load_nodes and loaders > load_nodes:
            problem = (
                f"there are {counted(load_nodes, 'Ready load node')}, and each load pod has one"
            )
            remedy = "write fewer, or update the stack with a larger LoadNodeCount"
            faults.append(Fault(f"{path}.loaders", problem, remedy))
        elif members > room:
            problem = (
                f"{told}, of which {members} members leave {there - members} for"
                f" {counted(loaders, 'load pod')}, and the stack has no load nodes"
            )
            remedy = (
                f"write fewer, {enlarge}, or update the stack with LoadNodeCount={loaders}"
                " (in a cluster that existed before: LoadNodeSelector)"
            )
            faults.append(Fault(f"{path}.members", problem, remedy))
    return found


def _check_volumes(tests: Sequence[TestBase], arms: int, faults: list[Fault]) -> None:
    """Report the test whose volumes, with those of the tests before it, are too many or too large.

    All tests are valid, so that their places are those in the plan.
    """
    number = gib = 0
    for index, test in enumerate(tests):
        if not isinstance(test, WorkloadTest) or not isinstance(test.storage, Volume):
            continue
        number += arms * test.member_count
        gib += arms * test.member_count * test.storage.gib
        path, problem = f"tests[{index}]", "the plan's volumes up to this test are"
        if number > MAX_VOLUMES:
            problem = f"{problem} {number}, more than {MAX_VOLUMES}"
            faults.append(Fault(f"{path}.members", problem, "write fewer, or use 'node'"))
            return
        if gib > MAX_VOLUMES_GIB:
            problem = f"{problem} {gib} GiB in all arms, more than {MAX_VOLUMES_GIB}"
            faults.append(Fault(f"{path}.storage.gib", problem, "write a smaller size"))
            return


def _check_arms_of_workloads(arms: Mapping[str, ArmChoice], faults: list[Fault]) -> None:
    """Report arms on which no workload can be."""
    known: dict[str, str] = {}
    for path, arm in arms.items():
        for side in ("client_network", "server_network"):
            if getattr(arm, side) == "host":
                problem = "is 'host', and the pods of a workload have a network of their own"
                faults.append(
                    Fault(f"{path}.{side}", problem, "write 'pod', or leave the workload out")
                )
        if arm.nodes in known:
            problem = f"{arm.name!r} and {known[arm.nodes]!r} use the same nodes"
            remedy = "leave one of them or the workload out, since its members stay on their nodes"
            faults.append(Fault(path, problem, remedy))
        known.setdefault(arm.nodes, arm.name)


def _check_pairing(
    pairing: Pairing, arms: Iterable[ArmChoice], nodes: Mapping[str, int], faults: list[Fault]
) -> None:
    if pairing.kind != "random":
        return
    fewest = min(arms, key=lambda arm: nodes[arm.nodes])
    number = nodes[fewest.nodes]
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
    model: PlanInput,
    pairing: Pairing,
    arms: Sequence[ArmChoice],
    tests: Sequence[TestBase],
    nodes: Mapping[str, int],
    load_nodes: int,
    faults: list[Fault],
) -> None:
    of_pairs = pair_tests(tests)
    sizes = {arm.name: nodes[arm.nodes] for arm in arms}
    blocks = Blocks.of(model.blocks).most
    of_one_block = len(of_pairs) * sum(
        trials_of_block(pairing, model.direction, size) for size in sizes.values()
    ) + sum(test.loader_count * len(arms) for test in workloads(tests))
    trials = blocks * of_one_block
    if trials > MAX_TRIALS:
        fit = MAX_TRIALS // of_one_block
        fewer = f"at most {counted(fit, 'block')}, " if fit else ""
        faults.append(
            Fault(
                "blocks",
                f"the plan has {trials} trials, more than {MAX_TRIALS}",
                f"ask for {fewer}fewer tests or a pairing with fewer pairs, such as 'ring'",
            )
        )
    # Arms on the same nodes take turns; arms on different nodes are measured at the same time.
    rounds: Counter[str] = Counter()
    for arm in arms:
        rounds[arm.nodes] += rounds_of_block(pairing, model.direction, model.load, sizes[arm.name])
    at_once = sum(
        min(pairing.pairs(count), count // 2)
        for count in {arm.nodes: sizes[arm.name] for arm in arms}.values()
    )
    together = at_once if model.load == "together" else 1
    of_block = (
        max(rounds.values()) * round_seconds(of_pairs, together, together=together > 1)
        if of_pairs
        else 0.0
    )
    for test in workloads(tests):
        turns, at_a_time = (len(arms), 1) if load_nodes else (1, len(arms))
        of_block += turns * round_seconds([test], at_a_time * test.loader_count)
    seconds = blocks * of_block + (blocks - 1) * model.pause_seconds
    if seconds > MAX_RUN_SECONDS:
        faults.append(
            Fault(
                "blocks",
                f"the plan would take {duration(seconds)}, more than {duration(MAX_RUN_SECONDS)}",
                "ask for fewer blocks, shorter pauses or tests, a pairing with fewer pairs, or the"
                " load 'together'",
            )
        )
    if model.load == "together" and at_once > MAX_PAIRS_PER_ITEM:
        faults.append(
            Fault(
                "load",
                f"a round would hold {at_once} pairs, more than {MAX_PAIRS_PER_ITEM}",
                "write 'isolated', or {\"random\": k} with fewer pairs as the pairing",
            )
        )
        return
    if together * len(of_pairs) > MAX_TRIALS_PER_ITEM:
        faults.append(
            Fault(
                "tests",
                f"a round of {together} pairs would have {together * len(of_pairs)} trials to"
                f" collect at once, more than {MAX_TRIALS_PER_ITEM}",
                f"ask for at most {MAX_TRIALS_PER_ITEM // together} tests, for the load 'isolated',"
                ' or for {"random": k} with fewer pairs as the pairing',
            )
        )
