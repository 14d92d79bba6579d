"""Where a run's workloads and their load were, how long each phase took, and the CPU. Pure."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Sequence

from rackrate.measure.members import WorkloadStart, WorkloadStarts, of_plan
from rackrate.measure.trials import Trial
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.workloads import places
from rackrate.tools.base import MEMBERS_CPU
from rackrate.workloads.base import Volume, WorkloadTest
from rackrate_contract.arms import Arm
from rackrate_contract.results import PhasesOfWorkload, WorkloadOfResults


def workloads_of(
    planned: PlannedRun, trials: Sequence[Trial], starts: WorkloadStarts | None
) -> tuple[WorkloadOfResults, ...]:
    """Each workload of a run in each arm.

    Args:
        planned: the run's plan.
        trials: the stored trials, including the warm-up.
        starts: how members started; None if it is not known.
    """
    starts_of = {} if starts is None else {(each.test, each.arm): each for each in starts.workloads}
    return tuple(
        _workload(test, arm, planned, trials, starts_of.get((test.name, arm.name)))
        for test, arm in of_plan(planned)
    )


def _workload(
    test: WorkloadTest,
    arm: Arm,
    planned: PlannedRun,
    trials: Sequence[Trial],
    start: WorkloadStart | None,
) -> WorkloadOfResults:
    ours = [trial for trial in trials if (trial.test, trial.arm) == (test.name, arm.name)]
    members = () if start is None else start.members
    running = _latest(member.started_at for member in members)
    return WorkloadOfResults(
        test=test.name,
        arm=arm.name,
        members=members,
        load_from="load nodes" if planned.load_nodes else "nodes of the arm",
        load_nodes=places(test, arm, planned.load_nodes).loaders,
        storage=_storage(test),
        phases=PhasesOfWorkload(
            start=_seconds(_earliest(member.created_at for member in members), running),
            ready=_seconds(running, _latest(member.ready_at for member in members)),
            load=_duration(t for t in ours if t.warm_up and test.has_data),
            settle=float(test.settle_seconds),
            measure=_duration(t for t in ours if not t.warm_up),
        ),
        **{detail.name: _median(ours, detail.name) for detail in MEMBERS_CPU},
    )


def _storage(test: WorkloadTest) -> str:
    if isinstance(test.storage, Volume):
        return f"{test.storage.gib} GiB of {test.storage.storage_class}"
    return test.storage


def _median(trials: Iterable[Trial], detail: str) -> float | None:
    values = [value for trial in trials if (value := trial.detail(detail)) is not None]
    return statistics.median(values) if values else None


def _duration(trials: Iterable[Trial]) -> float | None:
    """The seconds of those trials of which the time is known; None if there is none."""
    spans = [trial.interval for trial in trials]
    durations = [end - start for start, end in filter(None, spans)]
    return sum(durations) if durations else None


def _earliest(times: Iterable[str | None]) -> datetime.datetime | None:
    parsed = [datetime.datetime.fromisoformat(time) for time in times if time is not None]
    return min(parsed, default=None)


def _latest(times: Iterable[str | None]) -> datetime.datetime | None:
    """The latest time; None if one is unknown."""
    all_times = list(times)
    if not all_times or None in all_times:
        return None
    return max(datetime.datetime.fromisoformat(time) for time in all_times if time is not None)


def _seconds(start: datetime.datetime | None, end: datetime.datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())
