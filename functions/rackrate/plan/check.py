"""The check of a plan. It reports every mistake at once, with its path in the input. Pure."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from rackrate.errors import Fault, InvalidPlan
from rackrate.plan.arms import ArmChoice
from rackrate.plan.check_arms import (
    check_differences,
    check_networks,
    check_nodes,
    check_pairing,
    choose_baseline,
    read_arms,
)
from rackrate.plan.check_tests import (
    check_volumes,
    check_ways,
    faults_with_ipv6,
    read_test,
    read_tests,
    with_members,
)
from rackrate.plan.durations import unagreed_seconds
from rackrate.plan.endpoints import check_endpoints
from rackrate.plan.faults import Faults, check_name, read_fields, shown, whole_numbers
from rackrate.plan.fields import MAX_TRIALS, Blocks, PlanInput, without_started_by
from rackrate.plan.items import MAX_PAIRS_PER_ITEM, MAX_TRIALS_PER_ITEM
from rackrate.plan.model import Plan, names_of
from rackrate.plan.pairing import Pairing, rounds_of_block, trials_of_block
from rackrate.plan.series import slot_seconds
from rackrate.plan.workloads import pair_tests, workloads
from rackrate.settings import Settings
from rackrate.tools.base import TestBase
from rackrate_text.units import duration
from rackrate_text.words import counted

#: The state machine stops a run after two days; a plan may ask for one.
MAX_RUN_SECONDS = 86_400


def check_plan(
    raw: object,
    settings: Settings,
    *,
    nodes: Mapping[str, int],
    run_id: str,
    load_nodes: int = 0,
    is_ipv6: bool = False,
) -> Plan:
    """Read and check a plan.

    Args:
        raw: the execution's input, any JSON value.
        settings: the stack's settings.
        nodes: number of Ready nodes of each of the stack's arms, by name.
        run_id: the source of the seed for a plan without one, so that a repeated call gives the
            same plan.
        load_nodes: number of Ready load nodes.
        is_ipv6: whether the pods have IPv6 addresses only.

    Raises:
        InvalidPlan: the plan has mistakes; the error lists every one.
    """
    faults, stack_arms, image = Faults(), settings.arms, settings.tool_image
    check_name(run_id, faults)
    raw = whole_numbers(raw)
    model = _read_fields(raw, faults)
    arms = read_arms(model, raw, stack_arms, faults)
    check_nodes(arms, stack_arms, nodes, faults)
    check_networks(arms, bool(settings.host_namespace), faults)
    check_differences(arms, faults)
    baseline = choose_baseline(model, list(arms.values()), stack_arms, faults)
    tests = read_tests(model.tests, image, settings.allowed_images, faults, is_ipv6=is_ipv6)
    check_ways(arms, tests, faults)
    check_endpoints(arms, tests, model.direction, settings.endpoints, faults, is_ipv6=is_ipv6)
    pairing = Pairing.of(model.pairing)
    earlier = names_of(model.compare_with)
    _check_earlier_names(earlier, run_id, faults)
    if not any(fault.path.split("[")[0] == "arms" for fault in faults):
        check_pairing(pairing, list(arms.values()), nodes, faults)
    if not faults:
        tests = with_members(tests, arms, stack_arms, nodes, load_nodes, faults)
    if not faults:
        check_volumes(tests, len(arms), faults)
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


def _read_fields(raw: object, faults: Faults) -> PlanInput:
    remedy = "leave out what the defaults say already, or split it into several runs"
    return read_fields(without_started_by(raw), PlanInput, faults, remedy)


def earlier_path(names: Sequence[str], index: int) -> str:
    """The path of one of the names in `compare_with`."""
    return "compare_with" if len(names) == 1 else f"compare_with[{index}]"


def _check_earlier_names(names: Sequence[str], run_id: str, faults: Faults) -> None:
    for index, name in enumerate(names):
        path = earlier_path(names, index)
        if name == run_id:
            remedy = "name a run that has ended, or leave it out"
            faults.add(path, "is this very run", remedy)
        if name in names[:index]:
            faults.add(path, f"{shown(name)} is named twice", "name each run once")


def ipv6_faults(raw: object) -> list[Fault]:
    """The tests of a plan that do not measure between IPv6 addresses; see `check_plan`."""
    return [
        fault
        for index, entry in enumerate(_read_fields(raw, Faults()).tests)
        if (test := read_test(entry, "", Faults())) is not None
        for fault in faults_with_ipv6(test, f"tests[{index}]")
    ]


def _check_size(
    model: PlanInput,
    pairing: Pairing,
    arms: Sequence[ArmChoice],
    tests: Sequence[TestBase],
    nodes: Mapping[str, int],
    load_nodes: int,
    faults: Faults,
) -> None:
    """Report a plan with too many trials, of too long a time, or with rounds that are too large."""
    of_pairs = pair_tests(tests)
    sizes = {arm.name: nodes[arm.nodes] for arm in arms}
    blocks = Blocks.of(model.blocks).most
    trials_of_one_block = len(of_pairs) * sum(
        trials_of_block(pairing, model.direction, sizes[arm.name], to_endpoint=bool(arm.endpoint))
        for arm in arms
    ) + sum(test.loader_count * len(arms) for test in workloads(tests))
    _check_trials(blocks, trials_of_one_block, faults)
    at_once = sum(
        min(pairing.pairs(count), count // 2)
        for count in {arm.nodes: sizes[arm.name] for arm in arms}.values()
    )
    together = at_once if model.load == "together" else 1
    # Arms on the same nodes take turns; arms on different nodes are measured at the same time.
    rounds: Counter[str] = Counter()
    for arm in arms:
        # So do arms towards one endpoint, here towards any.
        rounds["" if any(each.endpoint for each in arms) else arm.nodes] += rounds_of_block(
            *(pairing, model.direction, model.load, sizes[arm.name]),
            to_endpoint=bool(arm.endpoint),
        )
    of_block = 0.0
    if of_pairs:
        of_block = max(rounds.values()) * slot_seconds(of_pairs)
    for test in workloads(tests):
        turns, at_a_time = (len(arms), 1) if load_nodes else (1, len(arms))
        of_block += turns * unagreed_seconds([test], at_a_time * test.loader_count)
    seconds = blocks * of_block + (blocks - 1) * model.pause_seconds
    if seconds > MAX_RUN_SECONDS:
        faults.add(
            "blocks",
            f"the plan would take {duration(seconds)}, more than {duration(MAX_RUN_SECONDS)}",
            "ask for fewer blocks, shorter pauses or tests, a pairing with fewer pairs, or the"
            " load 'together'",
        )
    _check_round(together, len(of_pairs), faults)


def _check_trials(blocks: int, of_one_block: int, faults: Faults) -> None:
    trials = blocks * of_one_block
    if trials > MAX_TRIALS:
        fit = MAX_TRIALS // of_one_block
        fewer = f"at most {counted(fit, 'block')}, " if fit else ""
        faults.add(
            "blocks",
            f"the plan has {trials} trials, more than {MAX_TRIALS}",
            f"ask for {fewer}fewer tests or a pairing with fewer pairs, such as 'ring'",
        )


def _check_round(pairs: int, tests: int, faults: Faults) -> None:
    if pairs > MAX_PAIRS_PER_ITEM:
        faults.add(
            "load",
            f"a round would hold {pairs} pairs, more than {MAX_PAIRS_PER_ITEM}",
            "write 'isolated', or {\"random\": k} with fewer pairs as the pairing",
        )
    elif pairs * tests > MAX_TRIALS_PER_ITEM:
        faults.add(
            "tests",
            f"a round of {pairs} pairs would have {pairs * tests} trials to"
            f" collect at once, more than {MAX_TRIALS_PER_ITEM}",
            f"ask for at most {MAX_TRIALS_PER_ITEM // pairs} tests, for the load 'isolated',"
            ' or for {"random": k} with fewer pairs as the pairing',
        )
