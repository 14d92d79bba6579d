"""Builds results.json (`rackrate.result.v1`, see docs/results.md) from a run's data. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rackrate.errors import NAMES, REFUSALS
from rackrate.foreign import plain
from rackrate.measure.counters import GAUGES, Counters
from rackrate.measure.members import WorkloadStarts
from rackrate.measure.trials import Trial
from rackrate.plan.planned_run import PlannedRun
from rackrate.results.workloads import workloads_of
from rackrate.tools.base import TestBase
from rackrate.verdict import wording
from rackrate.verdict.model import Analysis
from rackrate_contract.arms import Arm, Node
from rackrate_contract.campaign import CampaignStatus
from rackrate_contract.capacity import Launch
from rackrate_contract.results import (
    CounterIncreases,
    Gauge,
    MetricOfTest,
    Replacement,
    Results,
    Run,
    Stopped,
    Versions,
)
from rackrate_contract.trials import Failure, LossOfTrials, TrialCounts, WarmUp, WarmUpTrial
from rackrate_text.failures import error_in, explain, was_stopped
from rackrate_text.words import capitalized


@dataclass(frozen=True)
class RunFailure:
    """Step Functions' error and its cause."""

    error: str
    cause: str
    stopped: bool = False
    """Whether somebody stopped the execution, which is no failure."""

    @classmethod
    def of_execution(cls, execution: Mapping[str, Any]) -> RunFailure:
        """The failure in an event or a description of an execution.

        Whoever stops an execution names the error, with any characters.
        """
        stopped = execution.get("status") == "ABORTED"
        return cls(plain(execution.get("error") or ""), execution.get("cause") or "", stopped)

    @classmethod
    def read(cls, value: Mapping[str, str] | None) -> RunFailure | None:
        """Read `Error` and `Cause` as the state machine passes them on."""
        if value is None:
            return None
        error, cause = str(value.get("Error") or ""), str(value.get("Cause") or "")
        return cls(error, cause, stopped=was_stopped(cause))

    @property
    def text(self) -> str:
        """The error and its message for people, out of the documents of Lambda and of executions.

        Lambda's document has `errorMessage`, that of a child execution its own `Error` and `Cause`.
        """
        reason, error = explain(self.error, self.cause).text, self.error or error_in(self.cause)
        inner = error_in(self.cause)
        return ": ".join(part for part in (inner or error, reason) if part)

    def sentence(self, *, subject: str, during: str | None, measured: str, log_group: str) -> str:
        """What failed, where, why, how much was measured, and what to do.

        An error that we raise ourselves says what and where. Any other gets the step or the phase,
        and the place of its log. A refused input is reported as it is, a line for each mistake.

        Args:
            subject: what failed: `The run` or `The campaign`.
            during: the phase in which it failed, or None.
            measured: how much it measured, such as `4 of 24 trials were measured`; may be empty.
            log_group: the log group of the stack's functions.
        """
        failure = explain(self.error, self.cause)
        if self.error in REFUSALS:
            return failure.reason
        if self.error in NAMES:
            if not measured:
                return failure.reason
            many = "\n" in failure.reason
            return (
                f"{failure.reason.rstrip('.')}.\n{capitalized(measured)}."
                if many
                else (f"{failure.reason.rstrip('.')}; {measured}.")
            )
        where = f" in the step {failure.step}" if failure.step else ""
        if not where and during:
            where = f' in the phase "{during}"'
        how = "was stopped" if self.stopped else "failed"
        reason = failure.reason or self.error
        if self.error and failure.reason and not failure.remedy and not self.stopped:
            reason = f"{self.error}: {reason}"
        text = f"{subject} {how}{where}{f': {reason.rstrip(".")}' if reason else ''}"
        text += f"; {measured}." if measured else "."
        if how == "failed":
            text += f" {failure.remedy or 'Run again, and report it if it fails again'}"
            request = f", request {failure.request}" if failure.request else ""
            text += f" (details: log group {log_group}{request})."
        return text


def final_status(
    failure: RunFailure | None, *, lost: int
) -> Literal["succeeded", "degraded", "failed", "invalid"]:
    """The final status of a run.

    Args:
        failure: why it failed, or None.
        lost: number of trials that were not measured.
    """
    if failure is not None:
        return "invalid" if failure.error == "InvalidPlan" else "failed"
    return "degraded" if lost else "succeeded"


def campaign_status(failure: RunFailure | None, *, lost: int) -> CampaignStatus:
    """The final status of a campaign.

    Args:
        failure: why it failed, or None.
        lost: the number of its steps without a result.
    """
    if failure is not None:
        return "invalid" if failure.error == "InvalidCampaign" else "failed"
    return "degraded" if lost else "succeeded"


@dataclass(frozen=True)
class RunTimes:
    """When a run started and when its results were written, ISO 8601; how long it waited first."""

    started_at: str
    written_at: str
    waited_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took, in seconds: the time between the two without what it waited."""
        parse = datetime.datetime.fromisoformat
        whole = (parse(self.written_at) - parse(self.started_at)).total_seconds()
        return whole - (self.waited_seconds or 0.0)


def build_results(
    planned: PlannedRun,
    trials: Sequence[Trial],
    analysis: Analysis,
    *,
    trials_planned: int,
    stopped: Stopped | None,
    times: RunTimes,
    lab_scale: float | None,
    warnings: Iterable[str],
    failure: RunFailure | None = None,
    counters: Counters | None = None,
    launches: Sequence[Launch] = (),
    replacements: Sequence[Replacement] = (),
    starts: WorkloadStarts | None = None,
) -> Results:
    """Build results.json.

    Args:
        planned: the run's plan.
        trials: the stored trials, including the warm-up.
        analysis: the analysis of the trials.
        trials_planned: the number of trials of the blocks that the run began.
        stopped: why it measured no more blocks, or None if it did not look at its verdicts.
        times: the times of the run.
        lab_scale: factor by which the lab scaled the network, or None.
        warnings: deviations from the plan, besides the warnings of the analysis.
        failure: why the run failed, or None.
        counters: the nodes' counters, or None when they were not read.
        launches: how its nodes came, as far as that is known.
        replacements: the nodes that took the places of lost ones.
        starts: how the members of workloads started; None if it is not known.
    """
    counts = count_trials(trials, planned.arms, planned=trials_planned)
    arms = planned.arms if counters is None else counters.describe(planned.arms)
    warnings = [*warnings, *_not_ready(starts), *map(str, replacements), *analysis.warnings]
    return Results.from_fields(
        analysis,
        run=_run(planned, failure, counts.failed, times, lab_scale),
        conclusion=wording.sentence(
            analysis.verdicts,
            analysis.regressions,
            summaries=analysis.summaries,
            arms=arms,
            marks=analysis.marks,
            measured=counts.measured,
            differences=analysis.regression_differences,
        ),
        stopped=None if stopped is None else stopped.beside(analysis.regressions),
        plan=planned.plan.to_json(),
        estimates=planned.estimates,
        metrics=metrics_of(planned.plan.tests),
        arms=arms,
        trials=counts,
        warm_up=warm_up_of([trial for trial in trials if trial.warm_up]),
        mark_notes=tuple(wording.mark_notes(analysis.marks, counts.measured)),
        warnings=tuple(dict.fromkeys(warnings)),
        launches=tuple(launches),
        replacements=tuple(replacements),
        workloads=workloads_of(planned, trials, starts),
        dns_nodes=planned.dns_nodes,
        counters=None if counters is None else _increases(counters),
        versions=versions_of(planned, arms, trials),
    )


def _run(
    planned: PlannedRun,
    failure: RunFailure | None,
    lost: int,
    times: RunTimes,
    lab_scale: float | None,
) -> Run:
    """The facts about a run; see `build_results`."""
    return Run.from_fields(
        times,
        id=planned.run_id,
        status=final_status(failure, lost=lost),
        lab_scale=lab_scale,
        seed=planned.plan.seed,
        execution_arn=planned.execution_arn,
        error=None if failure is None else failure.error,
        cause=None if failure is None else failure.cause,
    )


def _not_ready(starts: WorkloadStarts | None) -> list[str]:
    """A sentence for each workload that was not ready in an arm."""
    return [
        f"the workload {of.test} was not ready in the arm {of.arm}: {failures[0]}"
        for of in (() if starts is None else starts.workloads)
        if (failures := [member.failure for member in of.members if member.failure])
    ]


def count_trials(trials: Iterable[Trial], arms: Iterable[Arm], *, planned: int) -> TrialCounts:
    """The counts of trials, without the warm-up; a trial that never ran counts as failed."""
    counted = [trial for trial in trials if not trial.warm_up]
    measured = sum(trial.is_measured for trial in counted)
    lost = [(trial.key, trial) for trial in counted if not trial.is_measured]
    causes = wording.losses(lost, arms, never_ran=planned - measured - len(lost))
    return TrialCounts(
        planned=planned,
        measured=measured,
        failed=planned - measured,
        failures=tuple(Failure.from_fields(trial, reason=trial.reason or "") for _, trial in lost),
        causes=tuple(map(LossOfTrials.from_fields, causes)),
    )


def metrics_of(tests: Iterable[TestBase]) -> tuple[MetricOfTest, ...]:
    """The metrics of tests, with how a trial's value is computed."""
    return tuple(
        MetricOfTest.from_fields(metric, test=test.name, metric=metric.name)
        for test in tests
        for metric in test.metrics
    )


def warm_up_of(trials: Sequence[Trial]) -> WarmUp:
    """The warm-up's trials, which no verdict uses."""
    measured = sum(trial.is_measured for trial in trials)
    return WarmUp(
        measured=measured,
        failed=len(trials) - measured,
        trials=tuple(map(WarmUpTrial.from_fields, trials)),
    )


def _increases(counters: Counters) -> CounterIncreases:
    """The increases of the network interfaces' counters during the run, and the gauges.

    A counter has no increase if it was read only once, or if it fell, as after a node's restart.
    """
    nodes: dict[str, dict[str, dict[str, int | None]]] = {}
    gauges: dict[str, dict[str, dict[str, Gauge]]] = {}
    for node in sorted({*counters.before, *counters.after}):
        first, last = counters.before.get(node, {}), counters.after.get(node, {})
        nodes[node], gauges[node] = {}, {}
        for interface in sorted({*first, *last}):
            before, after = first.get(interface, {}), last.get(interface, {})
            nodes[node][interface] = _increase(before, after)
            gauges[node][interface] = {
                name: Gauge(before=before.get(name), after=after.get(name))
                for name in GAUGES
                if name in before or name in after
            }
    return CounterIncreases(note=counters.note, nodes=nodes, gauges=gauges)


def _increase(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int | None]:
    return {
        name: after[name] - before[name]
        if name in before and name in after and after[name] >= before[name]
        else None
        for name in sorted({*before, *after} - {*GAUGES})
    }


def versions_of(planned: PlannedRun, arms: Iterable[Arm], trials: Iterable[Trial]) -> Versions:
    """The versions of the software that took part."""
    nodes = [node for arm in arms for node in arm.nodes]

    def distinct(fact: Callable[[Node], str | None]) -> tuple[str, ...]:
        return tuple(sorted(filter(None, set(map(fact, nodes)))))

    return Versions(
        kubernetes=planned.kubernetes_version,
        image=planned.image,
        tools=tuple(sorted(filter(None, {trial.tool_version for trial in trials}))),
        kernels=distinct(lambda node: node.kernel),
        network_drivers=distinct(lambda node: node.drivers),
        machine_images=distinct(lambda node: node.image),
        container_runtimes=distinct(lambda node: node.container_runtime),
        kubelets=distinct(lambda node: node.kubernetes),
    )
