"""The check of a plan's tests and of the members of its workloads. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rackrate import registry
from rackrate.errors import Fault
from rackrate.plan.arms import ArmChoice
from rackrate.plan.faults import Faults, faults_of, kind_of, name_of, named_twice
from rackrate.plan.images import programs_lacking
from rackrate.plan.model import CATALOGUE
from rackrate.plan.workloads import workloads
from rackrate.settings import StackArm
from rackrate.tools.base import TestBase
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB, Volume, WorkloadTest
from rackrate_text.words import counted, listed, nearest


def read_tests(
    entries: Sequence[Any],
    image: str,
    allowed_images: Collection[str],
    faults: Faults,
    *,
    is_ipv6: bool,
) -> list[TestBase]:
    """The valid tests of a plan."""
    tests: list[TestBase] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"tests[{index}]"
        test = read_test(entry, path, faults)
        faults += named_twice(entry, path, names, "give each test a name of its own")
        if test is not None:
            tests.append(test)
            faults.extend(_image_faults(test, path, {image, *allowed_images}))
            if is_ipv6:
                faults.extend(faults_with_ipv6(test, path))
            if lacking := programs_lacking(image, test):
                faults.add(
                    path,
                    f"{test.name} needs {listed(lacking)}, which the image {image} lacks",
                    'update the stack with "ToolImage=build", whose image has all tools, or'
                    " leave the test out",
                )
    return tests


def read_test(entry: Any, path: str, faults: Faults) -> TestBase | None:
    """A test of a plan; None if it is not valid.

    Args:
        entry: a name of the catalogue or an object, any JSON value.
        path: its path in the plan.
        faults: where faults are added.
    """
    if isinstance(entry, str):
        if entry in CATALOGUE:
            return registry.load_test({"name": entry, **CATALOGUE[entry]})
        otherwise = ", or an object with a name and a tool"
        faults.add_unknown(path, "there is no test", entry, CATALOGUE, otherwise)
        return None
    if not isinstance(entry, dict):
        faults.add(
            path,
            f"must be a name or an object, not {kind_of(entry)}",
            f"use one of {listed(CATALOGUE, 'or')}, or an object with a name and a tool",
        )
        return None
    name = name_of(entry)
    known = CATALOGUE.get(name or "", {})
    tool = entry.get("tool", known.get("tool"))
    if tool is None:
        # Which other fields a test may have depends on its tool.
        for field in sorted(entry.keys() - {"name", "tool"}):
            if near := nearest(field, ("name", "tool")):
                faults.add(f"{path}.{field}", f"is not a field here{near}", "correct it")
        if "name" not in entry:
            faults.add(f"{path}.name", "is missing", "give the test a name")
        faults.add(
            f"{path}.tool",
            "is missing, and the name is none of the catalogue's" + nearest(name or "", CATALOGUE),
            f"use one of {listed(registry.names(), 'or')}, or a name of the catalogue:"
            f" {listed(CATALOGUE, 'or')}",
        )
        return None
    if not isinstance(tool, str) or tool not in registry.names():
        faults.add_unknown(f"{path}.tool", "there is no tool", tool, registry.names())
        return None
    # The catalogue's options of a test apply only to its own tool.
    defaults = known if known.get("tool") == tool else {"tool": tool}
    model = registry.test_class(tool)
    try:
        return model.model_validate({**defaults, **entry})
    except ValidationError as error:
        faults.extend(faults_of(error, model, f"{path}."))
        return None


def faults_with_ipv6(test: TestBase, path: str) -> Iterable[Fault]:
    """The fault of a test that does not measure between IPv6 addresses."""
    if test.no_ipv6 is not None:
        why, remedy = test.no_ipv6
        yield Fault(path, f"the cluster's pods have IPv6 addresses, and {test.tool} {why}", remedy)


def _image_faults(test: TestBase, path: str, allowed: Collection[str]) -> Iterable[Fault]:
    """The images of a workload that the stack does not allow, since they may run any code."""
    for field in ("image", "load_image") if isinstance(test, WorkloadTest) else ():
        if (image := getattr(test, field)) is not None and image not in allowed:
            remedy = "leave it out, or update the stack with this image in AllowedImages"
            yield Fault(f"{path}.{field}", f"the stack does not allow {image}", remedy)


def check_ways(arms: Mapping[str, ArmChoice], tests: Sequence[TestBase], faults: Faults) -> None:
    """Report arms whose clients connect to a Service, in a plan with tests that cannot."""
    cannot = [test.name for test in tests if not test.through_service]
    for path, arm in arms.items():
        if arm.via == "service" and cannot:
            faults.add(
                f"{path}.via",
                f"{listed(cannot)} cannot go through a Service of the servers",
                f"leave {listed(cannot)} out of the tests, or write 'pod'",
            )


def with_members(
    tests: Sequence[TestBase],
    arms: Mapping[str, ArmChoice],
    stack_arms: Sequence[StackArm],
    nodes: Mapping[str, int],
    load_nodes: int,
    faults: Faults,
) -> list[TestBase]:
    """The tests, with the number of members of each workload, which every arm has nodes for."""
    complete: list[TestBase] = []
    if workloads(tests):
        _check_arms_of_workloads(arms, faults)
    whereabouts = {arm.name: arm.whereabouts for arm in stack_arms}
    fewest = min(arms.values(), key=lambda arm: nodes[arm.nodes], default=None)
    for index, test in enumerate(tests):
        if not isinstance(test, WorkloadTest) or fewest is None:
            complete.append(test)
            continue
        path, there = f"tests[{index}]", nodes[fewest.nodes]
        loaders = test.loaders or max(1, load_nodes)
        # Without load nodes, each load pod takes a node of the arm.
        room = there if load_nodes else there - loaders
        members = test.members
        if members is None:
            members = max(test.least_members, min(room, test.most_members))
        settled = test.model_copy(update={"members": members, "loaders": loaders})
        complete.append(settled)
        if test.members is None:
            # Other fields may need more members than there are nodes for.
            try:
                type(test).model_validate(settled.model_dump())
            except ValidationError as error:
                faults.extend(faults_of(error, type(test), f"{path}."))
                continue
        ready = f"the arm {fewest.name!r} has {counted(there, 'Ready node')}"
        enlarge = f"enlarge the {whereabouts[fewest.nodes]}"
        if members > there:
            problem = f"{ready}, fewer than the {members} members"
            faults.add(f"{path}.members", problem, f"write fewer, or {enlarge}")
        elif load_nodes and loaders > load_nodes:
            problem = (
                f"there are {counted(load_nodes, 'Ready load node')}, and each load pod has one"
            )
            remedy = "write fewer, or update the stack with a larger LoadNodeCount"
            faults.add(f"{path}.loaders", problem, remedy)
        elif members > room:
            problem = (
                f"{ready}, of which {members} members leave {there - members} for"
                f" {counted(loaders, 'load pod')}, and the stack has no load nodes"
            )
            remedy = (
                f"write fewer, {enlarge}, or update the stack with LoadNodeCount={loaders}"
                " (in a cluster that existed before: LoadNodeSelector)"
            )
            faults.add(f"{path}.members", problem, remedy)
    return complete


def check_volumes(tests: Sequence[TestBase], arms: int, faults: Faults) -> None:
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
            faults.add(f"{path}.members", problem, "write fewer, or use 'node'")
            return
        if gib > MAX_VOLUMES_GIB:
            problem = f"{problem} {gib} GiB in all arms, more than {MAX_VOLUMES_GIB}"
            faults.add(f"{path}.storage.gib", problem, "write a smaller size")
            return


def _check_arms_of_workloads(arms: Mapping[str, ArmChoice], faults: Faults) -> None:
    """Report arms on which no workload can be."""
    known: dict[str, str] = {}
    for path, arm in arms.items():
        for side in ("client_network", "server_network"):
            if getattr(arm, side) == "host":
                problem = "is 'host', and the pods of a workload have a network of their own"
                faults.add(f"{path}.{side}", problem, "write 'pod', or leave the workload out")
        if arm.nodes in known:
            problem = f"{arm.name!r} and {known[arm.nodes]!r} use the same nodes"
            remedy = "leave one of them or the workload out, since its members stay on their nodes"
            faults.add(path, problem, remedy)
        known.setdefault(arm.nodes, arm.name)
