"""Judge: record a step's outcome, compute the answers so far, and name the next step or none."""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.changes import change_of
from rackrate.changes.renewal import KEEP
from rackrate.errors import StepsLost
from rackrate.executions.campaigns import Campaigns, CampaignStep
from rackrate.executions.runs import Runs
from rackrate.plan.campaign import run_id_of_step
from rackrate.plan.fields import STARTED_BY
from rackrate.plan.looks import looks
from rackrate.plan.planned_campaign import PlannedCampaign
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, campaign_status
from rackrate.results.build_campaign import answers_of_runs
from rackrate.settings import LOAD
from rackrate.stages.campaign.change import going_on, progress_of
from rackrate.times import later, now, seconds_between
from rackrate.verdict import campaign as verdict
from rackrate.verdict.capacity import never_fills
from rackrate.verdict.hunt import hunted, sentences, stop_hunt
from rackrate_contract.campaign import Answer, CampaignFacts, CampaignStopped, Hunt
from rackrate_contract.capacity import UNFILLED
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import CampaignRecord, RunRecord
from rackrate_contract.results import Results
from rackrate_text.failures import grouped
from rackrate_text.units import dollars
from rackrate_text.words import listed

#: The change of a hunt's first step: none.
PRESENT = "the present nodes"
#: So many steps without a result in a row end a campaign: what fails twice will fail again.
LOST_IN_A_ROW = 2


class Judged(Document):
    """Whether a campaign has made enough steps, and the next step if not."""

    enough: bool
    number: int
    """The next step's number; the last one's if it has made enough."""
    run_id: str
    """The id of that step's run."""
    plan: Json
    """The input of that run; empty if it has made enough."""


def judge(
    campaign_id: str,
    resources: Resources,
    *,
    failure: RunFailure | None,
    failed: int | None = None,
) -> Judged:
    """Record the outcome of the step that goes on, and decide what comes next.

    The call can be repeated: a step that goes on is named again, and the failure of the step before
    is not taken for its own.

    Args:
        campaign_id: the campaign.
        resources: the stack's resources.
        failure: why a step's change or run failed, or None.
        failed: the number of that step.

    Raises:
        StepsLost: the last steps have no result, or none has one.
        NodesBusy: the campaign does not hold its nodes any more.
    """
    campaigns = resources.store.campaigns
    record, planned = going_on(campaign_id, resources), campaigns.plan(campaign_id)
    steps = campaigns.steps(campaign_id)
    if steps and steps[-1].is_open:
        own_failure = failure if failed == steps[-1].number else None
        ended = _outcome(steps[-1], planned, own_failure, resources)
        if ended is None:
            return _go_on(steps[-1], record, planned, resources)
        steps[-1] = ended
        _record_outcome(ended, record, planned, campaigns)
    runs = results_of(record, steps, resources)
    answers, hunt = _answers(record, planned, runs), hunt_of(planned, steps, runs)
    progress = _progress(record, planned, steps, runs, answers)
    if hunt is not None:
        progress["conclusion"] = " ".join(sentences(hunt))
        progress["present_measured"] = hunt.rank is not None
    campaigns.update(campaign_id, **progress)
    _check_losses(steps)
    stopped = _stop(planned, steps, answers, hunt, spent=progress["usd"])
    if stopped is not None:
        return _end(stopped, campaign_id, steps, campaigns)
    step = _next_step(planned, steps)
    campaigns.put_step(campaign_id, step)
    return _go_on(step, record, planned, resources)


def _end(
    stopped: CampaignStopped, campaign_id: str, steps: Sequence[CampaignStep], campaigns: Campaigns
) -> Judged:
    """Record that the campaign makes no more steps.

    Raises:
        StepsLost: none of its steps has a result.
    """
    campaigns.update(campaign_id, stopped=stopped.to_json(), phase=_phase(stopped))
    if not any(step.has_result for step in steps):
        raise StepsLost(stopped.text if stopped.why == "unfilled" else losses(steps))
    last = steps[-1]
    return Judged(enough=True, number=last.number, run_id=last.run_id, plan={})


def _next_step(planned: PlannedCampaign, steps: Sequence[CampaignStep]) -> CampaignStep:
    """The step after those that were made, before its change."""
    campaign, number = planned.campaign, len(steps) + 1
    value = campaign.value_after([step.value for step in steps if step.has_result])
    title, replaced = change_of(campaign).title(value), set(planned.stack_arms)
    before = steps[-1] if steps else None
    is_first = all(step.source is not None for step in steps)
    if campaign.hunt is not None:
        # A hunt first looks at the present nodes, and always leaves those of the other arms.
        title, replaced = (PRESENT, set()) if is_first else (title, {campaign.hunt.arm})
    elif before and before.source is None and before.is_unfilled and before.value == value:
        # Nothing was measured on the new nodes of the other arms, so they serve the next step.
        replaced = {each.arm for each in before.launches if each.outcome != "filled"}
    keep = [arm for arm in planned.stack_arms if arm not in replaced]
    pause = 0 if is_first else 60 * campaign.pause_minutes
    return CampaignStep(
        number=number,
        change=title,
        value=value,
        run_id=run_id_of_step(planned.campaign_id, number),
        status="changing",
        started_at=None,
        change_seconds=None,
        run_seconds=None,
        dollars=None,
        nodes={},
        begins_at=later(now(), pause) if pause else None,
        progress={"made": {KEEP: keep}} if keep else {},
    )


def _go_on(
    step: CampaignStep, record: CampaignRecord, planned: PlannedCampaign, resources: Resources
) -> Judged:
    """Record a step as the one that goes on."""
    campaign_id = planned.campaign_id
    resources.store.campaigns.update(
        campaign_id,
        step=step.number,
        step_run_id=step.run_id,
        phase=f"{progress_of(record, step)}: {step.change}",
    )
    plan = planned.campaign.plan_of_step(campaign_id, step.number)
    # With this field the console leads from the run to its campaign.
    plan[STARTED_BY] = planned.execution_arn
    return Judged(enough=False, number=step.number, run_id=step.run_id, plan=plan)


# -- the outcome of a step


def _outcome(
    step: CampaignStep, planned: PlannedCampaign, failure: RunFailure | None, resources: Resources
) -> CampaignStep | None:
    """The step with its outcome; None if it still goes on."""
    runs = resources.store.runs
    run = runs.find(step.run_id) if step.status == "running" else None
    if run is not None and not run.is_running:
        ended = _ended_with(run, step, runs)
    elif failure is not None:
        ended = _ended_without_result(run, step, failure)
    else:
        return None
    if planned.estimate is None:
        return ended
    seconds = (ended.change_seconds or 0.0) + (ended.run_seconds or 0.0)
    if ended.begins_at is not None:
        seconds += 60 * planned.campaign.pause_minutes
    cost = planned.estimate.of_step(ended.value).usd(seconds)
    return ended.model_copy(update={"dollars": cost})


def _ended_with(run: RunRecord, step: CampaignStep, runs: Runs) -> CampaignStep:
    """A step whose run has ended."""
    outcome: Json = {
        "status": run.status,
        "started_at": run.started_at,
        "run_seconds": seconds_between(run.started_at, run.finished_at or now()),
    }
    if run.error is not None:
        outcome["reason"] = RunFailure(run.error, run.cause or "").text
    if run.status in ("succeeded", "degraded"):
        outcome["nodes"] = {arm.name: arm.node_names for arm in runs.plan(step.run_id).arms}
    return step.model_copy(update=outcome)


def _ended_without_result(
    run: RunRecord | None, step: CampaignStep, failure: RunFailure
) -> CampaignStep:
    """A step whose change failed, or whose run did and has not recorded its end."""
    refused = any(each.outcome == "refused" and each.arm != LOAD for each in step.launches)
    outcome: Json = {"status": UNFILLED if refused else "lost", "reason": failure.text}
    if run is not None:
        # The clean-up records the end of a run that was stopped, perhaps later.
        outcome["status"] = "aborted" if failure.stopped else "failed"
        outcome["started_at"] = run.started_at
        outcome["run_seconds"] = seconds_between(run.started_at, now())
    return step.model_copy(update=outcome)


def _record_outcome(
    step: CampaignStep, record: CampaignRecord, planned: PlannedCampaign, campaigns: Campaigns
) -> None:
    """Record a step that has ended, with what later steps and campaigns need of it."""
    if step.has_result and record.series is not None:
        campaigns.add_to_series(record.series, step.run_id)
    if step.has_result and step.change_seconds is not None and step.change != PRESENT:
        campaigns.note_change(change_of(planned.campaign).name, step.change_seconds)
    # The step last: a call that is repeated looks only at a step that is still open.
    campaigns.put_step(planned.campaign_id, step)


def _check_losses(steps: Sequence[CampaignStep]) -> None:
    """Raise StepsLost if the last steps were lost; those that EC2 did not fill say nothing."""
    own = [step for step in steps if step.source is None and not step.is_unfilled][-LOST_IN_A_ROW:]
    if len(own) == LOST_IN_A_ROW and not any(step.has_result for step in own):
        raise StepsLost(losses(own))


def losses(steps: Sequence[CampaignStep]) -> str:
    """Steps without a result, with their reasons."""
    lost = [step.reason or step.status for step in steps if not step.has_result]
    reasons = (loss.cause for loss in grouped((reason, "") for reason in lost))
    numbers = [step.number for step in steps if not step.has_result]
    one = len(numbers) == 1
    subject = f"{'step' if one else 'steps'} {listed(numbers)} of this campaign"
    return "\n".join([f"{subject} {'has' if one else 'have'} no result", *reasons])


# -- what comes next


def _answers(
    record: CampaignRecord, planned: PlannedCampaign, runs: Sequence[Results]
) -> tuple[Answer, ...]:
    """The answers over the draws so far; none for a sweep, which makes all of its steps."""
    if planned.campaign.kind in ("sweep", "hunt"):
        return ()
    return answers_of_runs(
        facts_of(record, planned, failure=None), runs, least=record.least, most=record.steps
    )


def _stop(
    planned: PlannedCampaign,
    steps: Sequence[CampaignStep],
    answers: Sequence[Answer],
    hunt: Hunt | None,
    *,
    spent: float | None,
) -> CampaignStopped | None:
    """Why to make no more steps, or None."""
    campaign = planned.campaign
    own = [step for step in steps if step.source is None]
    if campaign.hunt is not None and not own:
        return None  # the nodes of an earlier hunt may have changed
    most = campaign.most if campaign.sweep is None else None
    if (text := never_fills(own, most)) is not None:
        return CampaignStopped(after=len(steps), most=campaign.most, why="unfilled", text=text)
    if campaign.sweep is not None:
        done = sum(step.has_result for step in steps)
        if done >= campaign.most:
            text = f"Every step of the sweep is made: {done} runs."
            return CampaignStopped(after=len(steps), most=campaign.most, why="most", text=text)
        stopped = None
    elif campaign.hunt is not None:
        stopped = stop_hunt(hunt, after=len(steps), most=campaign.most)
    else:
        stopped = verdict.stop(answers, after=len(steps), least=campaign.least, most=campaign.most)
    return stopped or _over_budget(planned, steps, spent)


def _over_budget(
    planned: PlannedCampaign, steps: Sequence[CampaignStep], spent: float | None
) -> CampaignStopped | None:
    """Stop if the next step might exceed the budget."""
    campaign, following = planned.campaign, _cost_of_next(planned, steps)
    if spent is None or following is None or spent + following <= campaign.budget_dollars:
        return None
    return CampaignStopped.because(
        "budget",
        f"the next would bring the cost to about {dollars(spent + following)}, more than the budget"
        f" of {dollars(campaign.budget_dollars)}",
        after=len(steps),
        most=campaign.most,
        noun="draw" if campaign.sweep is None else "step",
    )


def _cost_of_next(planned: PlannedCampaign, steps: Sequence[CampaignStep]) -> float | None:
    """What the next step costs at most, by the steps so far; None if no price is known."""
    campaign, estimate = planned.campaign, planned.estimate
    if estimate is None:
        return None
    value = campaign.value_after([step.value for step in steps if step.has_result])
    alike = [
        step
        for step in steps
        if not step.is_lost
        and step.value == value
        and step.change != PRESENT
        # The first draw has no pause before it, which the next one has.
        and (step.begins_at is not None or not campaign.pause_minutes)
    ]
    of_step = estimate.of_step(value)
    costs = [step.dollars for step in alike]
    if not any(step.has_result and step.dollars is not None for step in alike):
        costs.append(of_step.usd(of_step.most_seconds + 60 * campaign.pause_minutes))
    return max((cost for cost in costs if cost is not None), default=None)


def _progress(
    record: CampaignRecord,
    planned: PlannedCampaign,
    steps: Sequence[CampaignStep],
    runs: Sequence[Results],
    answers: Sequence[Answer],
) -> Json:
    """The attributes of the record after these steps: their cost, the time left, the answers."""
    campaign = planned.campaign
    own_steps = [step for step in steps if step.source is None]
    costs = [step.dollars for step in own_steps]
    known_costs = [cost for cost in costs if cost is not None]
    times = [
        step.change_seconds + step.run_seconds
        for step in own_steps
        if step.has_result and step.change_seconds is not None and step.run_seconds is not None
    ]
    pause = 60 * campaign.pause_minutes
    step_seconds = sum(times) / len(times) + pause if times else record.expected_step_seconds
    elapsed = seconds_between(record.started_at, now())
    finished = len(steps) if campaign.sweep is None else sum(step.has_result for step in steps)
    at = looks(campaign.least, campaign.most)
    progress: Json = {
        "usd": sum(known_costs) if len(known_costs) == len(costs) else None,
        "expected_step_seconds": step_seconds,
        "expected_seconds": elapsed + max(0, campaign.most - finished) * step_seconds,
        "next_look": next((look for look in at if look > finished), at[-1]),
    }
    if runs:
        progress["lab_scale"] = runs[-1].run.lab_scale
    if answers:
        progress["conclusion"] = verdict.conclusion(answers)
    return progress


# -- what report_campaign uses too


def facts_of(
    record: CampaignRecord,
    planned: PlannedCampaign,
    *,
    failure: RunFailure | None,
    lost: int = 0,
) -> CampaignFacts:
    """The facts about a campaign for its results.

    Args:
        record: its item.
        planned: its plan.
        failure: why it failed, or None.
        lost: the number of its steps without a result.
    """
    campaign = planned.campaign
    return CampaignFacts.from_fields(
        record,
        id=record.id,
        status=campaign_status(failure, lost=lost),
        seconds=seconds_between(record.leased_at or record.started_at, now()),
        dollars=record.usd,
        swept=None if campaign.sweep is None else campaign.sweep.change,
        series=campaign.series,
        continues=campaign.continues,
        error=None if failure is None else failure.error,
        cause=None if failure is None else failure.cause,
    )


def hunt_of(
    planned: PlannedCampaign, steps: Sequence[CampaignStep], runs: Sequence[Results]
) -> Hunt | None:
    """What a hunt knows after these steps; None for other campaigns, and before its first figure.

    Args:
        planned: its plan.
        steps: the steps that have ended.
        runs: the results of those that have one.
    """
    campaign = planned.campaign
    if campaign.hunt is None or not steps:
        return None
    return hunted(
        runs,
        campaign.hunt,
        earlier={step.run_id: step.source for step in steps if step.source is not None},
        last_run_id=steps[-1].run_id,
        left=campaign.most - len(steps),
        dollars_per_draw=_cost_of_next(planned, steps),
    )


def results_of(
    record: CampaignRecord, steps: Sequence[CampaignStep], resources: Resources
) -> list[Results]:
    """The results of the runs that count, in the order in which they were made.

    They are those of the campaign's own steps, or of all draws of its series. A run whose results
    are missing is left out.
    """
    run_ids = [step.run_id for step in steps if step.has_result]
    if record.series is not None:
        # The newest draw comes last, also if an earlier campaign brought it into the series.
        earlier = resources.store.campaigns.series(record.series)
        run_ids = [*(run_id for run_id in earlier if run_id not in run_ids), *run_ids]
    texts = (resources.store.runs.find_text(run_id, "results.json") for run_id in run_ids)
    return [Results.read(text) for text in texts if text is not None]


def _phase(stopped: CampaignStopped) -> str:
    """The end of the steps as a phase: the sentence without its capital and its period."""
    text = stopped.text.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
