"""Plan campaign: check a campaign, estimate it, and record it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rackrate.changes import DRAWS, SWEEPS, change_of
from rackrate.changes.base import Change, Value
from rackrate.errors import Fault, InvalidCampaign, InvalidPlan
from rackrate.executions.campaigns import Campaigns, CampaignStep
from rackrate.executions.earlier import check_earlier_runs
from rackrate.measure.nodes import KEPT_LABEL, NODES
from rackrate.plan.campaign import Campaign, Uploaded, check_plans, read_campaign
from rackrate.plan.campaign_estimate import (
    campaign_estimate,
    change_span,
    check_budget,
    step_estimate,
)
from rackrate.plan.campaign_fields import MAX_DRAWS, MAX_POOL, Draws
from rackrate.plan.capacity import load_nodes_for
from rackrate.plan.faults import Faults
from rackrate.plan.fields import LEAST_PAIRS, without_started_by
from rackrate.plan.looks import looks
from rackrate.plan.model import Plan
from rackrate.plan.pairing import Pairing
from rackrate.plan.planned_campaign import PlannedCampaign
from rackrate.resources import Resources
from rackrate.results.pool import PooledRun, check_pool, in_order, notes_of, read_pooled
from rackrate.settings import LOAD
from rackrate.stages.execution.take_lease import name_faults
from rackrate.stages.run.plan import compared_metrics, lay_out, placeholder_nodes
from rackrate.times import now
from rackrate.verdict.draws import draws_needed
from rackrate_contract.campaign import CampaignKind, CampaignStatus
from rackrate_contract.document import Document, Json
from rackrate_contract.estimates import CampaignEstimate, Estimates, Power
from rackrate_text.names import is_id
from rackrate_text.words import counted, listed

#: The figures of a dry run: how many draws answer for these true ratios ...
_EFFECTS = (2.0, 1.3, 1.1, 1.0)
#: ... if draws differ as much as this.
_VARIABILITIES = (0.02, 0.05, 0.1)
#: With fewer runs of each number of nodes, a number's own variance has one degree of freedom.
LEAST_RUNS_OF_A_TIER = 3
#: The guard about nodes that do not exist yet says nothing here: each run plans with its own.
_OF_NODES_TO_COME = "placeholder_nodes"


class CampaignPlanned(Document):
    """What the next states need of a planned campaign."""

    campaign_id: str
    kind: CampaignKind
    dry_run: bool
    estimate: CampaignEstimate | None
    """Null for a pool."""
    warnings: tuple[str, ...]
    skipped: bool = False
    """Whether it ends here, because an earlier campaign of its series goes on."""


class _Execution(NamedTuple):
    """The execution of a campaign; fields of `PlannedCampaign`."""

    campaign_id: str
    execution_arn: str
    input: object


def plan_campaign(
    raw: object, resources: Resources, *, campaign_id: str, execution_arn: str
) -> CampaignPlanned:
    """Plan a campaign. The call can be repeated.

    Args:
        raw: the execution's input.
        resources: the stack's resources.
        campaign_id: the campaign.
        execution_arn: its execution.

    Raises:
        InvalidCampaign: the user has to change the input; nothing was started.
    """
    settings, campaigns = resources.settings, resources.store.campaigns
    faults = Faults(name_faults(resources.store.runs.find(campaign_id)))
    before = _continued(raw, campaign_id, campaigns, faults)
    campaign = read_campaign(
        raw,
        campaign_id=campaign_id,
        sweeps=SWEEPS,
        owns_nodes=settings.owns_nodes,
        before=None if before is None else before.input,
        faults=faults,
        arms=settings.arms,
        idles=settings.idle_scale_to_zero,
    )
    if not faults and (skipped := _skip(campaign_id, campaign, campaigns)) is not None:
        return skipped
    taken_over: list[CampaignStep] = []
    own_input = without_started_by(raw if before is None else before.input)
    execution = _Execution(campaign_id, execution_arn, own_input)
    if campaign.pool is not None:
        planned = _plan_pool(campaign, execution, resources, faults)
    else:
        taken_over = _taken_over(before, campaign, campaigns)
        if campaign.hunt is not None and taken_over and campaign.draws is not None:
            # A hunt that goes on looks at the present nodes. It draws again only if it is asked to.
            asked = campaign.draws.most if isinstance(raw, dict) and "draws" in raw else 0
            most = min(max(asked, len(taken_over) + 1), MAX_DRAWS)
            campaign = campaign.model_copy(update={"draws": Draws(least=1, most=most)})
        done = [step.value for step in taken_over if campaign.sweep is None or step.has_result]
        planned = _plan_steps(campaign, execution, done, resources, faults)
    if faults or planned is None:
        raise InvalidCampaign([*dict.fromkeys(faults)])
    campaigns.put(campaign_id, "plan.json", planned)
    for step in taken_over:
        campaigns.put_step(campaign_id, step)
    _record(planned, len(taken_over), campaigns)
    return CampaignPlanned(
        campaign_id=campaign_id,
        kind=planned.campaign.kind,
        dry_run=campaign.dry_run,
        estimate=planned.estimate,
        warnings=planned.warnings,
    )


# -- a campaign that this one continues


def _continued(
    raw: object, campaign_id: str, campaigns: Campaigns, faults: Faults
) -> PlannedCampaign | None:
    """The campaign that an input continues, if there is one that has ended."""
    name = raw.get("continue") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name:
        return None
    if name == campaign_id:
        faults.append(Fault("continue", "is this very campaign", "name one that has ended"))
        return None
    # What is no id could not be a key of the table either.
    record = campaigns.find(name) if is_id(name) else None
    plan = None if record is None else campaigns.find_document(name, "plan.json", PlannedCampaign)
    if record is None or plan is None:
        remedy = "name a campaign of this stack; rackrate campaign list names them"
        faults.append(Fault("continue", f"there is no campaign {name[:80]!r}", remedy))
    elif record.is_running:
        problem = f"the campaign {name!r} is still going"
        faults.append(Fault("continue", problem, "wait for its end, or stop its execution"))
    elif record.kind == "pool":
        problem = f"the campaign {name!r} is a pool, which has no steps to make"
        faults.append(Fault("continue", problem, "pool again, with more runs"))
    else:
        return plan
    return None


def _taken_over(
    before: PlannedCampaign | None, campaign: Campaign, campaigns: Campaigns
) -> list[CampaignStep]:
    """The finished steps of the campaign that this one continues, as its own first steps."""
    if before is None:
        return []
    # Without the unfilled ones, more launches would seem to be filled than were.
    steps = [step for step in campaigns.steps(before.campaign_id) if not step.is_lost]
    # Of draws, also the unfilled ones count as made.
    most = campaign.most if campaign.kind == "draws" else len(steps)
    return [
        step.model_copy(
            update={"number": number, "source": step.source or f"campaign {before.campaign_id}"}
        )
        for number, step in enumerate(steps[:most], start=1)
    ]


# -- draws and sweeps


class _Steps(NamedTuple):
    """The steps that a campaign can make.

    Attributes:
        change: the change before each run.
        counts: the number of nodes of each arm, by the value of a step.
        plans: the checked plan of a run, by the number of nodes.
    """

    change: Change
    counts: Mapping[Value | None, int]
    plans: Mapping[int, Plan]

    @property
    def first_count(self) -> int:
        """The number of nodes at the first step."""
        return next(iter(self.counts.values()))

    @property
    def first_plan(self) -> Plan:
        """The plan of the first step's run."""
        return self.plans[self.first_count]


def _plan_steps(
    campaign: Campaign,
    execution: _Execution,
    done: Sequence[Value | None],
    resources: Resources,
    faults: Faults,
) -> PlannedCampaign | None:
    """Check and estimate the steps; None, with faults, if some step cannot be made."""
    settings = resources.settings
    if not settings.owns_nodes:
        return None
    steps = _read_steps(campaign, execution.campaign_id, resources, faults)
    if faults:
        return None
    estimate = _estimate_steps(campaign, steps, done, resources)
    warnings = check_budget(campaign, estimate, faults)
    if estimate.usd is None and campaign.hunt and campaign.hunt.dollars_per_percent is not None:
        problem = "needs the price of the nodes, which is not known"
        faults.add("hunt.dollars_per_percent", problem, "use at_most, at_least or best_share")
    plan = steps.first_plan
    if campaign.sweep is not None and campaign.sweep.change == "nodes":
        warnings += _few_pairs(campaign.sweep.runs_per_step, plan, steps.first_count)
    # A change concerns all arms, also those that the runs do not use.
    node_sets = [*settings.arms, *plan.node_sets(settings)]
    return PlannedCampaign.from_fields(
        execution,
        campaign=campaign,
        metrics=compared_metrics(plan),
        threshold=plan.threshold,
        if_busy=plan.if_busy,
        stack_arms=tuple(dict.fromkeys(node_set.name for node_set in node_sets)),
        estimate=estimate,
        warnings=tuple(warnings),
    )


def _read_steps(
    campaign: Campaign, campaign_id: str, resources: Resources, faults: Faults
) -> _Steps:
    """The steps, which are complete if no fault is added."""
    settings = resources.settings
    change = change_of(campaign)
    values: Sequence[Value | None] = campaign.sweep.values if campaign.sweep else (None,)
    if campaign.sweep is not None:
        faults += change.faults(campaign.sweep.values, resources)
    if any(fault.path.startswith("sweep") for fault in faults):
        # Without its values nothing is known of its nodes, but the plan can be checked.
        values, change = (None,), DRAWS
    counts = {value: change.node_count(value, settings.node_count) for value in values}
    if campaign.hunt is None and not change.needs_nodes:
        _check_kept(campaign.kind, resources, faults)
    plans = check_plans(
        campaign.plan,
        counts.values(),
        settings=settings,
        campaign_id=campaign_id,
        faults=faults,
    )
    if plans:
        plan = next(iter(plans.values()))
        _check_earlier(plan, resources, faults)
        if campaign.kind == "draws" and len(plan.arms) == 1:
            only = "draws compare arms, and this is one"
            faults.add("plan.arms", only, "name two arms, or sweep over values with one")
    return _Steps(change, counts, plans)


def _check_kept(field: str, resources: Resources, faults: Faults) -> None:
    """Add a fault if new nodes would replace some that a hunt has kept."""
    labels = (node["metadata"]["labels"] for node in resources.cluster.list(NODES, KEPT_LABEL))
    if hunts := sorted({each[KEPT_LABEL] for each in labels}):
        problem = f"would replace the nodes that {listed(hunts)} kept"
        release = f"kubectl label node --selector {KEPT_LABEL} {KEPT_LABEL}-"
        faults.add(field, problem, f"give them up: {release}")


def _estimate_steps(
    campaign: Campaign, steps: _Steps, done: Sequence[Value | None], resources: Resources
) -> CampaignEstimate:
    """How long the steps take and what they cost; `done` are the values of those taken over."""
    change, plan = steps.change, steps.first_plan
    kinds = {value: (count, change.instance_type(value)) for value, count in steps.counts.items()}
    estimates = {
        kind: _estimates(steps.plans[kind[0]], *kind, resources)
        for kind in dict.fromkeys(kinds.values())
    }
    measured = resources.store.campaigns.change_seconds(change.name)
    seconds = change_span(measured) or change.seconds
    answers = len(compared_metrics(plan)) * (len(plan.arms) - 1)
    return campaign_estimate(
        campaign,
        [step_estimate(v, kind[0], seconds, estimates[kind]) for v, kind in kinds.items()],
        changes=len(measured),
        done=done,
        power=_power(campaign, plan, answers),
        guards=_guards(estimates.values()),
    )


def _check_earlier(plan: Plan, resources: Resources, faults: Faults) -> None:
    try:
        check_earlier_runs(plan, resources.store)
    except InvalidPlan as invalid:
        faults += [replace(fault, path=f"plan.{fault.path}") for fault in invalid.faults]


def _estimates(
    plan: Plan, count: int, instance_type: str | None, resources: Resources
) -> Estimates:
    settings = resources.settings
    nodes = {
        arm.name: placeholder_nodes(arm, count, resources, instance_type) for arm in settings.arms
    }
    if settings.load in plan.node_sets(settings):
        loading = load_nodes_for(count, settings)
        nodes[LOAD] = placeholder_nodes(settings.load, loading, resources)
    return lay_out(plan, nodes, resources, placeholders=True).estimates


def _guards(estimates: Iterable[Estimates]) -> list[str]:
    """What may go wrong in the runs, each once."""
    return list(
        dict.fromkeys(
            "; ".join(filter(None, (guard.text, guard.remedy)))
            for estimate in estimates
            for guard in estimate.guards
            if guard.would_trip and guard.guard != _OF_NODES_TO_COME
        )
    )


def _few_pairs(runs: int, plan: Plan, nodes: int) -> list[str]:
    """A warning if the intervals of a sweep over nodes will rest on few runs or few pairs."""
    least = Pairing.of(plan.pairing).pairs(nodes)
    if runs >= LEAST_RUNS_OF_A_TIER and least >= LEAST_PAIRS:
        return []
    return [
        f"each number of nodes has {counted(runs, 'run')}, and the first, {nodes} nodes,"
        f" {counted(least, 'pair')} in each run: the intervals will be wide; ask for runs_per_step"
        f" of at least {LEAST_RUNS_OF_A_TIER}, and for {LEAST_PAIRS} pairs or more by the pairing"
        " and the first number"
    ]


def _power(campaign: Campaign, plan: Plan, answers: int) -> list[Power]:
    """How many draws may be needed; nothing for a sweep and a hunt."""
    if campaign.kind != "draws":
        return []
    return [
        Power(
            ratio=effect,
            variability=variability,
            draws=draws_needed(effect, variability, threshold=plan.threshold, answers=answers),
        )
        for variability in _VARIABILITIES
        for effect in _EFFECTS
    ]


# -- pools


def _plan_pool(
    campaign: Campaign, execution: _Execution, resources: Resources, faults: Faults
) -> PlannedCampaign | None:
    """Check the runs of a pool; None, with faults, if they cannot be pooled."""
    entries = _named(campaign.pool or (), resources, faults)
    runs = {
        path: run
        for path, entry in entries.items()
        if (run := _read_run(entry, path, resources, faults)) is not None
    }
    if len(runs) == len(entries):
        check_pool(runs, faults)
    if faults:
        return None
    pooled = in_order(list(runs.values()))
    plan = pooled[-1].plan
    return PlannedCampaign.from_fields(
        execution,
        campaign=campaign.model_copy(update={"pool": tuple(entries.values())}),
        metrics=compared_metrics(plan),
        threshold=plan.threshold,
        if_busy="wait",
        stack_arms=(),
        estimate=None,
        warnings=tuple(notes_of(pooled)),
    )


def _named(
    entries: Sequence[str | Uploaded], resources: Resources, faults: Faults
) -> dict[str, str | Uploaded]:
    """The entries of a pool by their path, with the runs of baselines in place of their names."""
    by_path: dict[str, str | Uploaded] = {}
    for index, entry in enumerate(entries):
        path = f"pool[{index}]"
        if isinstance(entry, Uploaded):
            by_path[path] = entry
            continue
        named = resources.store.runs.named(entry)
        if named.problem is not None:
            faults.append(Fault(path, named.problem, named.remedy))
        for number, run in enumerate(named.runs):
            by_path[f"{path} ({number})" if named.is_baseline else path] = run.id
    if len(by_path) > MAX_POOL:
        problem = f"stands for {len(by_path)} runs, more than {MAX_POOL}"
        faults.append(Fault("pool", problem, "name fewer"))
    return by_path


def read_pool(planned: PlannedCampaign, resources: Resources) -> list[PooledRun]:
    """The runs of a planned pool.

    Raises:
        InvalidCampaign: the results of one are missing since.
    """
    faults = Faults()
    entries = enumerate(planned.campaign.pool or ())
    runs = [_read_run(entry, f"pool[{index}]", resources, faults) for index, entry in entries]
    if faults:
        raise InvalidCampaign(faults)
    return in_order([run for run in runs if run is not None])


def _read_run(
    entry: str | Uploaded, path: str, resources: Resources, faults: Faults
) -> PooledRun | None:
    store, uploaded = resources.store, isinstance(entry, Uploaded)
    if isinstance(entry, Uploaded):
        name, text = entry.results, store.objects.find(entry.results)
        problem, remedy = "there is no such object in the bucket", "upload it first"
    else:
        name, text = entry, store.runs.find_text(entry, "results.json")
        problem, remedy = f"the run {entry!r} left no results", "name a run that was measured"
    if text is None:
        faults.append(Fault(path, problem, remedy))
        return None
    return read_pooled(text, name=name, path=path, uploaded=uploaded, faults=faults)


def _skip(name: str, campaign: Campaign, campaigns: Campaigns) -> CampaignPlanned | None:
    """Record that a campaign makes nothing, if it asks for that while an earlier one goes on.

    Two that start at the same moment may not see each other. The lease lets them take turns then.
    """
    if campaign.dry_run or not campaign.skip_if_running:
        return None
    running = [record.id for record in campaigns.running() if record.series == campaign.series]
    for earlier in (campaign_id for campaign_id in running if campaign_id != name):
        time, kind = now(), campaign.kind
        why = f"Skipped: the campaign {earlier} of its series is still going."
        campaigns.start(name, "skipped", time, kind=kind, conclusion=why, finished_at=time)
        return CampaignPlanned(
            campaign_id=name, kind=kind, dry_run=False, estimate=None, warnings=(why,), skipped=True
        )
    return None


# -- the campaign's item


def _record(planned: PlannedCampaign, taken_over: int, campaigns: Campaigns) -> None:
    campaign, estimate = planned.campaign, planned.estimate
    started_at = now()
    attributes: Json = {
        "kind": planned.campaign.kind,
        "phase": "planned",
        "execution_arn": planned.execution_arn,
        "stack_arms": planned.stack_arms,
        "step": taken_over,
        "steps": campaign.most,
        "least": campaign.least,
        "next_look": looks(campaign.least, campaign.most)[0],
        "expected_seconds": 0.0 if estimate is None else estimate.seconds.most,
        "expected_step_seconds": 0.0 if estimate is None else estimate.mean_step_seconds,
        "usd": 0.0,
        "budget_dollars": None if estimate is None else campaign.budget_dollars,
        "series": campaign.series,
        "seed": campaign.seed,
        "warnings": planned.warnings,
    }
    if campaign.dry_run:
        attributes |= {"finished_at": started_at, "seconds": 0}
    status: CampaignStatus = "dry_run" if campaign.dry_run else "running"
    campaigns.start(planned.campaign_id, status, started_at, **attributes)
