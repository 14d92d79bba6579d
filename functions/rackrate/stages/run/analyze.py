"""Analyze: compute the verdicts from the stored trials."""

from __future__ import annotations

from rackrate.errors import GIVING_UP, TrialsLost
from rackrate.executions.store import Store
from rackrate.plan.guards import UNKNOWN_TYPES
from rackrate.resources import Resources
from rackrate.stages.execution.rest_nodes import RUN_LIMIT_SECONDS
from rackrate.verdict import wording
from rackrate.verdict.analysis import EarlierRuns, against_earlier_runs, analyze_run
from rackrate.verdict.evidence import Evidence
from rackrate.verdict.overlaps import OtherRun, Span, overlaps
from rackrate.verdict.wording import name_of_runs
from rackrate_contract.document import Document
from rackrate_text.words import counted


class Analyzed(Document):
    """How many verdicts a run has, and how many of its trials were measured and lost."""

    verdicts: int
    measured: int
    lost: int


def analyze(run_id: str, resources: Resources, *, after_failure: bool) -> Analyzed:
    """Compute and store the verdicts of a run.

    The input is stored trials only, so the analysis of any run can be repeated at any time.

    Args:
        run_id: the run.
        resources: the stack's resources.
        after_failure: whether the run has failed already; lost trials then raise no error.

    Raises:
        TrialsLost: more trials were lost than the plan tolerates; the verdicts are stored.
        NodesUnavailable, ServersNotReady, AdmissionRefused: the run gave up before it had measured
            what it planned; the verdicts are stored.
    """
    store = resources.store
    evidence = store.evidence(run_id)
    guards = evidence.planned_run.estimates.guards
    warnings = [each.text for each in guards if each.guard == UNKNOWN_TYPES and each.would_trip]
    warnings += [*_continued(evidence, store), *_overlaps(evidence, store)]
    if not after_failure:
        warnings += _not_looked(evidence, store)
    analysis = analyze_run(evidence, _earlier(evidence, store, warnings), warnings)
    store.runs.put(run_id, "analysis.json", analysis)
    for verdict in analysis.verdicts:
        store.trials.put_verdict(run_id, verdict)
    planned, measured = len(evidence.planned), len(evidence.measured)
    if not after_failure:  # then the phase still shows where it failed
        store.runs.update(run_id, phase="analyzing")
    run = store.runs.update(
        run_id,
        trials_planned=planned,
        trials_measured=measured,
        trials_failed=planned - measured,
        conclusion=wording.sentence(
            analysis.verdicts,
            analysis.regressions,
            summaries=analysis.summaries,
            arms=evidence.planned_run.arms,
            marks=analysis.marks,
            measured=measured,
            differences=analysis.regression_differences,
        ),
    )
    lost = planned - measured
    if not after_failure and run is not None and (over := run.gave_up) is not None:
        message = f"{over.message}; {measured} of {counted(planned, 'trial')} were measured"
        raise GIVING_UP[over.error](message)
    if not after_failure and lost > evidence.planned_run.plan.tolerated_loss * planned:
        missing = [k for k in evidence.planned if k not in evidence.measured]
        causes = wording.losses(
            ((k, evidence.trials.get(k)) for k in missing), evidence.planned_run.arms
        )
        raise TrialsLost(wording.loss(causes, planned=planned))
    return Analyzed(verdicts=len(analysis.verdicts), measured=measured, lost=lost)


def _not_looked(evidence: Evidence, store: Store) -> list[str]:
    """A warning if a look failed, which ends the measuring without a reason to stop."""
    planned_run = evidence.planned_run
    blocks = planned_run.plan.blocks
    run = store.runs.find(planned_run.run_id)
    if blocks.least == blocks.most or run is None or run.stopped or run.gave_up:
        return []
    measured = counted(max(key.block for key in evidence.planned), "block")
    return [
        f"the look at the verdicts after {measured} failed, so the run measured no more, though it"
        f" could have measured {blocks.most}; the log of the function Look has the reason"
    ]


def _continued(evidence: Evidence, store: Store) -> list[str]:
    """When the run went on after its end, and what it had measured until then."""
    run = store.runs.find(evidence.planned_run.run_id)
    return [
        wording.continued(
            sum((trial.finished_at or "") < time for trial in evidence.measured.values()),
            len(evidence.planned),
            time,
        )
        for time in (() if run is None else run.continued_at)
    ]


def _overlaps(evidence: Evidence, store: Store) -> list[str]:
    """Sentences on other runs that used the run's nodes while it measured."""
    run = evidence.planned_run
    span = Span.of(evidence.measured.values())
    if span is None:
        return []
    others = [
        OtherRun(
            run_id=other.id,
            span=Span(other.leased_at or other.started_at, other.finished_at or span.end),
            stack_arms=frozenset(other.stack_arms),
        )
        for other in store.runs.between(span.start, span.end, longest_seconds=RUN_LIMIT_SECONDS)
        # A run without a lease has not got its nodes yet, unless it is of an older rackrate.
        if other.id != run.run_id
        and other.status not in ("dry_run", "invalid")
        and (other.leased_at or not other.stack_arms)
    ]
    return overlaps(span, run.plan.stack_arms, others)


def _earlier(evidence: Evidence, store: Store, warnings: list[str]) -> EarlierRuns | None:
    """The comparison with the earlier runs that the plan names.

    For each run that cannot be compared, the reason is added to `warnings`.
    """
    planned = evidence.planned_run
    before: dict[str, Evidence] = {}
    for run_id in planned.plan.compare_with:
        if store.runs.find_text(run_id, "plan.json") is None:
            warnings.append(f"compare_with: the results of the run {run_id} are gone")
        else:
            before[run_id] = store.evidence(run_id, with_raw=False)
    if not before:
        return None
    name = name_of_runs(tuple(before), planned.compare_with_baseline)
    return against_earlier_runs(evidence, before, name=name)
