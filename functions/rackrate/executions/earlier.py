"""The earlier runs that a run is compared with: which they are, and why they may not do."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.errors import Fault, InvalidPlan
from rackrate.executions.store import Store
from rackrate.plan.arms import ArmChoice
from rackrate.plan.check import earlier_path
from rackrate.plan.faults import Faults
from rackrate.plan.fields import MAX_EARLIER_RUNS
from rackrate.plan.model import Plan
from rackrate.plan.planned_run import PlannedRun
from rackrate.verdict.evidence import changed_options

#: The ends of runs that others may be compared with.
COMPARABLE = frozenset({"succeeded", "degraded"})


def check_earlier_runs(plan: Plan, store: Store) -> tuple[tuple[str, ...], str | None]:
    """Find the earlier runs to compare this run with.

    Args:
        plan: this run's plan, whose `compare_with` has ids of runs and names of baselines.
        store: the store.

    Returns:
        The runs' ids, and the name of the baseline that stands for all of them, if there is one.

    Raises:
        InvalidPlan: there is no such run, it did not end well, it shares no test or arm with the
            plan, a shared test had other options, a run is named twice, or they are too many.
    """
    names = plan.compare_with
    faults = Faults()
    plans: dict[str, PlannedRun] = {}
    baseline = None
    for index, name in enumerate(names):
        path = earlier_path(names, index)
        named = store.runs.named(name)
        baseline = named.baseline
        if named.problem is not None:
            faults.add(path, named.problem, named.remedy)
            continue
        for run in named.runs:
            if run.id in plans:
                faults.add(path, f"the run {run.id!r} is named twice", "name each run once")
            elif run.status not in COMPARABLE:
                faults.add(
                    path,
                    f"the run {run.id!r} is {run.status!r}",
                    f"name a run that ended {' or '.join(sorted(COMPARABLE))}",
                )
            else:
                plans[run.id] = store.runs.plan(run.id)
                faults += _faults_of_earlier(plan, plans[run.id], path)
    if not faults:
        faults += _faults_together(plan, plans)
    if faults:
        raise InvalidPlan(faults)
    return tuple(plans), baseline if len(names) == 1 else None


def _faults_of_earlier(plan: Plan, earlier: PlannedRun, path: str) -> list[Fault]:
    """Why this run cannot be compared with an earlier one."""
    faults = Faults()
    tests = {test.name: test for test in earlier.plan.tests}
    ours = [test for test in plan.tests if test.name in tests]
    if not ours:
        faults.add(
            path,
            f"the run {earlier.run_id!r} has none of this plan's tests",
            f"use one of {', '.join(tests)}, as it did",
        )
    for test in ours:
        if fields := changed_options(tests[test.name], test):
            faults.add(
                path,
                f"the run {earlier.run_id!r} had the test {test.name!r} with {fields}",
                "give the test the same options, or another name",
            )
    if not any(_is_in(arm, earlier) for arm in plan.arms):
        faults.add(
            path,
            f"the run {earlier.run_id!r} has none of this plan's arms",
            f"use one of {', '.join(arm.name for arm in earlier.arms)}, in the same networks"
            " and zones as there",
        )
    return faults


def _faults_together(plan: Plan, earlier: Mapping[str, PlannedRun]) -> list[Fault]:
    """Why this run cannot be compared with several earlier ones at once."""
    runs = earlier.values()
    if len(runs) > MAX_EARLIER_RUNS:
        problem = f"stands for {len(runs)} runs, more than {MAX_EARLIER_RUNS}"
        return [Fault("compare_with", problem, "name fewer")]
    shared = {
        "tests": any(all(test in run.plan.tests for run in runs) for test in plan.tests),
        "arms": any(all(_is_in(arm, run) for run in runs) for arm in plan.arms),
    }
    return [
        Fault(
            "compare_with",
            f"the {len(runs)} runs have none of this plan's {things} in common",
            "name runs of the same plan",
        )
        for things, are_shared in shared.items()
        if not are_shared
    ]


def _is_in(arm: ArmChoice, earlier: PlannedRun) -> bool:
    """Whether an earlier run has the arm, in the same networks and zones, with its endpoint."""
    same = arm.model_copy(update={"nodes": ""})
    return any(same == other.model_copy(update={"nodes": ""}) for other in earlier.plan.arms)
