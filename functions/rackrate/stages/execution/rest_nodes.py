"""Rest nodes: scale the node groups of an idling stack to zero, unless a run needs the nodes.

`wake_nodes` scales node groups up before a run. They are scaled to zero after the run, after an
execution that was stopped, and by the hourly sweep. A campaign needs the nodes until its end. Runs
may overlap. Each run records itself in
the table before it asks for nodes, and scales nothing down while another run is recorded there.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from rackrate.measure.node_groups import Sizes, describe, resize, sizes_of
from rackrate.resources import Resources
from rackrate.times import now, seconds_between
from rackrate_contract.document import Document
from rackrate_contract.executions import CampaignRecord, RunRecord

#: How long one call waits for node groups that are being updated. The hourly sweep handles those
#: that take longer.
PATIENCE_SECONDS = 40.0
_POLL_SECONDS = 5.0
#: Step Functions stops a run after two days (`TimeoutSeconds` of the state machine). So an older
#: run that the table shows as running is not running.
RUN_LIMIT_SECONDS = 2 * 86_400
#: The same of a campaign, which may take a week.
CAMPAIGN_LIMIT_SECONDS = 7 * 86_400
RESTING = "putting nodes to rest"


class Rested(Document):
    """The node groups by outcome; empty in a stack that does not idle."""

    rested: tuple[str, ...] = ()
    """Those that have, or will have, no nodes."""
    busy: tuple[str, ...] = ()
    """Those that were being updated for longer than one call waits."""
    needed_by: tuple[str, ...] = ()
    """The runs and campaigns that need the nodes."""


def rest_nodes(run_id: str, resources: Resources) -> Rested:
    """Scale the node groups to zero after a run whose end is not recorded yet."""
    # Without this phase, two runs that end together would each keep the nodes for the other.
    resources.store.runs.update(run_id, phase=RESTING)
    return rest_unneeded(resources, runs={run_id})


def rest_unneeded(
    resources: Resources, *, runs: Collection[str] = (), campaigns: Collection[str] = ()
) -> Rested:
    """Scale every node group to zero, unless the stack does not idle or a run needs the nodes.

    Args:
        resources: the stack's resources.
        runs: ids of runs that need no nodes any more, even if the table shows them running.
        campaigns: the same of campaigns.
    """
    settings = resources.settings
    if not settings.idle_scale_to_zero:
        return Rested()
    needed_by = {run.id for run in resources.store.runs.running() if _needs_nodes(run)} - {*runs}
    changing = {each.id for each in resources.store.campaigns.running() if _changes(each)}
    needed_by |= changing - {*campaigns}
    if needed_by:
        return Rested(needed_by=tuple(sorted(needed_by)))
    deadline = time.monotonic() + PATIENCE_SECONDS
    most = sizes_of({each: settings.count_of(each) for each in settings.node_sets})
    scaled = {name: _scale_to_zero(name, most[name], deadline, resources) for name in most}
    return Rested(
        rested=tuple(name for name in scaled if scaled[name]),
        busy=tuple(name for name in scaled if not scaled[name]),
    )


def _needs_nodes(run: RunRecord) -> bool:
    age = seconds_between(run.started_at, now())
    return run.phase != RESTING and age < RUN_LIMIT_SECONDS


def _changes(campaign: CampaignRecord) -> bool:
    """Whether a campaign that is not recorded as ended takes care of its nodes itself."""
    age = seconds_between(campaign.started_at, now())
    return bool(campaign.stack_arms) and age < CAMPAIGN_LIMIT_SECONDS


def _scale_to_zero(name: str, most: int, deadline: float, resources: Resources) -> bool:
    eks, settings = resources.eks, resources.settings
    while True:
        group = describe(eks, settings.cluster_name, name)
        if group is None or group.desired == 0:
            return True
        if resize(eks, settings.cluster_name, name, Sizes(0, 0, most)):
            return True
        if time.monotonic() + _POLL_SECONDS > deadline:
            return False
        time.sleep(_POLL_SECONDS)
