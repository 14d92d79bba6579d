"""Change: make the change of a campaign's step, and wait until it is made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rackrate.changes import change_of
from rackrate.changes.base import Change, Made
from rackrate.changes.scaling import put_back, resize_nodes, sizes_before
from rackrate.errors import CampaignEnded, NodesUnavailable
from rackrate.executions.campaigns import CampaignStep
from rackrate.plan.capacity import load_nodes_for
from rackrate.plan.fields import MAX_PAUSE_SECONDS
from rackrate.resources import Resources
from rackrate.settings import LOAD, StackArm
from rackrate.stages.execution.take_lease import keep_lease, retake_lease
from rackrate.times import next_wait, now, seconds_between
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import CampaignRecord
from rackrate_text.units import moment


class Changed(Document):
    """Whether a step's change is made, and if not, when to ask again."""

    ready: bool
    wait_seconds: int


def change(campaign_id: str, resources: Resources) -> Changed:
    """Begin the change of the current step, or go on with it. The call can be repeated.

    What has to be put back is recorded before anything is changed.

    Raises:
        NodesUnavailable: nodes do not come back; the message quotes the node group.
        NodesBusy: the campaign does not hold its nodes any more.
    """
    campaigns = resources.store.campaigns
    record = going_on(campaign_id, resources)
    step = campaigns.step(campaign_id, record.step)
    if step is None:
        raise LookupError(f"the campaign {campaign_id} has no step {record.step}")
    if step.status != "changing":
        return Changed(ready=True, wait_seconds=0)
    if step.begins_at is not None and (left := seconds_between(now(), step.begins_at)) > 0:
        pause = f"{progress_of(record, step)}: pausing until {moment(step.begins_at)}"
        campaigns.note(campaign_id, phase=pause)
        # The lease, which this call has renewed, outlasts the longest pause of a run.
        return Changed(ready=False, wait_seconds=math.ceil(min(left, MAX_PAUSE_SECONDS)))
    what = change_of(campaigns.plan(campaign_id).campaign)
    load = resources.settings.load if LOAD in record.stack_arms else None
    before = record.changed
    if before is None:
        before = what.before(resources)
        if load is not None:
            before = {**before, LOAD: sizes_before(resources, (load,))}
        campaigns.update(campaign_id, changed=before)
    began = step.change_started_at or now()
    try:
        made = _make(what, step, resources)
        if load is not None:
            made = _with_load_nodes(made, load, what, step, resources)
    except NodesUnavailable as error:
        campaigns.put_step(campaign_id, _changed(step, began, error.launches))
        raise
    changed = _changed(step, began, made.launches)
    status = "running" if made.done else "changing"
    campaigns.put_step(
        campaign_id, changed.model_copy(update={"status": status, "progress": made.progress})
    )
    if not campaigns.note(campaign_id, phase=_phase(record, step, made)):
        # The execution was stopped during this call. What it changed was put back before this call
        # changed more, so it has to be put back again.
        what.undo(before, resources)
        if load is not None:
            put_back(before[LOAD], resources, (load,))
        campaigns.update(campaign_id, changed=before)
    wait_seconds = 0 if made.done else next_wait(changed.change_seconds or 0.0)
    return Changed(ready=made.done, wait_seconds=wait_seconds)


def _changed(step: CampaignStep, began: str, launches: Sequence[Launch]) -> CampaignStep:
    """A step after a call of its change, with the launches that it has found the outcome of."""
    by_arm = {launch.arm: launch for launch in (*step.launches, *launches)}
    seconds = seconds_between(began, now())
    return step.model_copy(
        update={
            "change_started_at": began,
            "change_seconds": seconds,
            "launches": tuple(by_arm.values()),
        }
    )


def _make(what: Change, step: CampaignStep, resources: Resources) -> Made:
    """Wake the nodes where the change needs them, then make it."""
    settings, progress = resources.settings, step.progress
    launches: tuple[Launch, ...] = ()
    if what.needs_nodes and settings.idle_scale_to_zero and "made" not in progress:
        counts = dict.fromkeys(settings.arms, settings.node_count)
        woken = resize_nodes(counts, progress.get("waking", {}), resources)
        if not woken.done:
            return woken._replace(progress={"waking": woken.progress})
        launches = woken.launches
    made = what.make(step.value, progress.get("made", {}), resources)
    launches += made.launches
    return made._replace(progress={"made": made.progress}, launches=launches)


def _with_load_nodes(
    made: Made, load: StackArm, what: Change, step: CampaignStep, resources: Resources
) -> Made:
    """Give the step its load nodes too: as many in proportion to the arms' as the stack has."""
    settings = resources.settings
    count = load_nodes_for(what.node_count(step.value, settings.node_count), settings)
    loaded = resize_nodes({load: count}, step.progress.get(LOAD, {}), resources)
    return Made(
        made.done and loaded.done,
        {**made.progress, LOAD: loaded.progress},
        f"load nodes: {loaded.phase}" if made.done else made.phase,
        (*made.launches, *loaded.launches),
    )


def _phase(record: CampaignRecord, step: CampaignStep, made: Made) -> str:
    if made.done:
        return f"{progress_of(record, step)}: {step.run_id} is running"
    return f"{progress_of(record, step)}: {step.change}: {made.phase}"


def progress_of(record: CampaignRecord, step: CampaignStep) -> str:
    """Which step goes on, such as `draw 2 of at most 12`."""
    most = "at most " if record.least < record.steps else ""
    called = "draw" if record.kind in ("draws", "hunt") else "step"
    return f"{called} {step.number} of {most}{record.steps}"


def going_on(campaign_id: str, resources: Resources) -> CampaignRecord:
    """The item of a campaign that may change something, with its lease renewed.

    A campaign whose end is recorded goes on if its execution was redriven.

    Raises:
        CampaignEnded: its execution was stopped.
        NodesBusy: the campaign does not hold its nodes any more.
    """
    campaigns = resources.store.campaigns
    record = campaigns.get(campaign_id)
    if record.goes_on:
        keep_lease(record, resources.store)
        return record
    execution = resources.step_functions.describe_execution(executionArn=record.execution_arn)
    if execution["status"] != "RUNNING":
        raise CampaignEnded(f"the execution of the campaign {campaign_id} has ended")
    retake_lease(record, resources)
    campaigns.reopen(campaign_id)
    step = campaigns.step(campaign_id, record.step)
    if step is not None and step.status == "changing":
        # What was changed has been put back, so the change starts over.
        restarted: Json = {"progress": {}, "change_started_at": None}
        campaigns.put_step(campaign_id, step.model_copy(update=restarted))
    return campaigns.get(campaign_id)
