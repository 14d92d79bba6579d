"""Restore: put back what a campaign changed, however it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rackrate.changes import change_of
from rackrate.changes.scaling import put_back
from rackrate.errors import NodesBusy
from rackrate.measure.node_groups import groups_of
from rackrate.measure.nodes import KEPT_LABEL, NODES, is_ready, nodes_of
from rackrate.resources import Resources
from rackrate.results.build import RunFailure
from rackrate.settings import LOAD
from rackrate.stages.execution.rest_nodes import Rested, rest_unneeded
from rackrate.stages.execution.take_lease import retake_lease
from rackrate.stages.run.finish import PUTTING_BACK, Ended, record_end
from rackrate.stages.run.teardown import STATUSES, ending_of, left_alone, stop
from rackrate.times import next_wait, now, seconds_between
from rackrate_contract.document import Document
from rackrate_contract.executions import CampaignRecord, Status

#: How long a campaign waits until everything is as it was. What takes longer is left to the sweep.
PATIENCE_SECONDS = 25 * 60
#: The time between two questions of a function that waits itself.
_POLL_SECONDS = 5.0


class Restored(Document):
    """Whether everything is as it was, and if not, when to ask again."""

    done: bool
    wait_seconds: int
    nodes: Rested = Rested()


class Swept(Document):
    """The result of cleaning up after campaigns that ended."""

    restored: tuple[str, ...] = ()
    """The campaigns whose changes were put back."""
    unrestored: tuple[str, ...] = ()
    """Those whose changes are still to be put back."""
    ended: tuple[Ended, ...] = ()
    """How those were recorded whose end nobody had written."""


def restore(campaign_id: str, resources: Resources) -> Restored:
    """Put back what a campaign changed. The state machine calls it until it is done.

    In a stack that idles at zero the nodes are put to rest, unless a run needs them. In another
    stack it waits until the nodes are Ready, so that the next run finds them.

    Raises:
        NodesUnavailable: EKS refuses to resize a node group.
    """
    campaigns = resources.store.campaigns
    record = campaigns.get(campaign_id)
    since = record.restoring_since or now()
    # From here on no late call of Change changes anything.
    campaigns.update(campaign_id, restoring_since=since, phase=PUTTING_BACK)
    undone = record.changed is None or _undo(record, resources)
    if undone and _nodes_are_ready(record, resources):
        _label_kept(record, resources)
        rested = rest_unneeded(resources, campaigns={campaign_id})
        return Restored(done=True, wait_seconds=0, nodes=rested)
    seconds = seconds_between(since, now())
    if seconds > PATIENCE_SECONDS:
        return Restored(done=True, wait_seconds=0)
    return Restored(done=False, wait_seconds=next_wait(seconds))


def _label_kept(record: CampaignRecord, resources: Resources) -> None:
    """Label the nodes that a hunt keeps with its id, if it has come to an end by itself."""
    last = resources.store.campaigns.step(record.id, record.step)
    if record.stopped is None or not record.present_measured or last is None:
        return
    for name in (name for nodes in last.nodes.values() for name in nodes):
        # A label's value is shorter than an id may be, and ends in a letter or a digit.
        value = record.id[:63].rstrip("-_.")
        resources.cluster.label(f"{NODES}/{name}", {KEPT_LABEL: value})


def _undo(record: CampaignRecord, resources: Resources) -> bool:
    """Undo a campaign's change. Returns whether nothing is left to undo."""
    campaign_id = record.id
    what = change_of(resources.store.campaigns.plan(campaign_id).campaign)
    assert record.changed is not None
    undone = what.undo(record.changed, resources)
    load = resources.settings.load
    if load is not None and LOAD in record.changed:
        of_load = put_back(record.changed[LOAD], resources, (load,))
        undone = undone._replace(done=undone.done and of_load.done)
    if undone.done:
        resources.store.campaigns.update(campaign_id, changed=None)
    return undone.done


def _nodes_are_ready(record: CampaignRecord, resources: Resources) -> bool:
    """Whether it makes no sense to wait for nodes: they are there, or will not come.

    In a stack that idles at zero the nodes are not needed any more.
    """
    settings = resources.settings
    if settings.idle_scale_to_zero or record.step == 0 or record.kind == "pool":
        return True
    last = resources.store.campaigns.step(record.id, record.step)
    groups = groups_of(resources.eks, settings.cluster_name, settings.node_sets)
    if (last is not None and last.is_unfilled) or any(group.complaints for group in groups):
        return True
    desired = {group.name: group.desired for group in groups}
    for arm in settings.node_sets:
        nodes = nodes_of(resources.cluster, arm)
        expected = sum(desired[name] for name in arm.node_groups)
        if len(nodes) != expected or not all(map(is_ready, nodes)):
            return False
    return True


def restore_stopped(
    detail: Mapping[str, Any], resources: Resources, *, patience_seconds: float
) -> Swept:
    """Clean up after a campaign's execution that did not succeed, and record its end.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        resources: the stack's resources.
        patience_seconds: how long this call may wait.
    """
    campaign_id, status = detail["name"], STATUSES[detail["status"]]
    record = resources.store.campaigns.find(campaign_id)
    failure = RunFailure.of_execution(detail)
    if record is None or not record.is_running:
        # It was refused, or has put back what it changed and recorded its end itself.
        return Swept()
    return _clean_up(record, status, failure, resources, patience_seconds)


def sweep_campaigns(resources: Resources, *, patience_seconds: float) -> Swept:
    """Clean up after every campaign whose execution is no longer running.

    What another campaign or run holds now is left as it is until the next sweep.
    """
    campaigns, deadline = resources.store.campaigns, time.monotonic() + patience_seconds
    swept: list[Swept] = []
    for record in campaigns.running():
        with left_alone(record.id):
            ending = ending_of(resources.step_functions, record.execution_arn)
            if ending is not None:
                left = max(0.0, deadline - time.monotonic())
                swept.append(_clean_up(record, *ending, resources, left))
    for record in campaigns.unrestored():
        with left_alone(record.id):
            left = max(0.0, deadline - time.monotonic())
            swept.append(_put_back_later(record, resources, left))
    return Swept(
        restored=tuple(each for one in swept for each in one.restored),
        unrestored=tuple(each for one in swept for each in one.unrestored),
        ended=tuple(each for one in swept for each in one.ended),
    )


def _clean_up(
    record: CampaignRecord,
    status: Status,
    failure: RunFailure,
    resources: Resources,
    patience_seconds: float,
) -> Swept:
    """Stop a campaign's run, put back what it changed, record its end, give back its nodes."""
    campaign_id = record.id
    _stop_run(record, resources)
    _wait_until_restored(campaign_id, resources, patience_seconds)
    ended = record_end(
        "campaign",
        campaign_id,
        status,
        execution_arn=record.execution_arn,
        failure=failure,
        resources=resources,
    )
    restored = resources.store.campaigns.get(campaign_id).changed is None
    return Swept(
        restored=(campaign_id,) if restored else (),
        unrestored=() if restored else (campaign_id,),
        ended=(ended,),
    )


def _put_back_later(record: CampaignRecord, resources: Resources, patience_seconds: float) -> Swept:
    """Put back what a campaign changed whose end is recorded, unless somebody holds the nodes."""
    campaign_id = record.id
    try:
        retake_lease(record, resources)
    except NodesBusy:
        return Swept(unrestored=(campaign_id,))
    _wait_until_restored(campaign_id, resources, patience_seconds)
    if resources.store.campaigns.get(campaign_id).changed is not None:
        return Swept(unrestored=(campaign_id,))
    resources.store.leases.give_back("campaign", campaign_id)
    return Swept(restored=(campaign_id,))


def _wait_until_restored(campaign_id: str, resources: Resources, patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    while not restore(campaign_id, resources).done:
        if time.monotonic() + _POLL_SECONDS > deadline:
            return
        time.sleep(_POLL_SECONDS)


def _stop_run(record: CampaignRecord, resources: Resources) -> None:
    """Stop the run of the campaign's step, which Step Functions does too if all goes well."""
    run = None if record.step_run_id is None else resources.store.runs.find(record.step_run_id)
    if run is None or not run.is_running:
        return
    ended = RunFailure("Endeded", f"the campaign {record.id} has ended")
    stop(resources.step_functions, run.execution_arn, ended)
