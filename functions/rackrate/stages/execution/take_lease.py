"""Take lease: reserve the nodes of the plan's arms, or wait for the run that has them.

A campaign holds them for all of its runs.

Two runs on the same nodes would share their network, and both would measure too little. So a run
holds a lease on its nodes from here to its end. The servers' and the items' steps renew it.

Step Functions decides whether a run that did not give back its nodes is gone: its execution has
ended. A lease's own time decides only where Step Functions knows nothing, because the clocks of two
functions may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from botocore.exceptions import ClientError

from rackrate.errors import Fault, NodesBusy
from rackrate.executions.leases import Lease
from rackrate.executions.store import Store
from rackrate.plan.fields import MAX_PAUSE_SECONDS, IfBusy
from rackrate.resources import Resources
from rackrate.stages.run.teardown import ending_of
from rackrate.times import later, next_wait, now, seconds_between
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import CampaignRecord, RunRecord
from rackrate_text.units import duration, moment
from rackrate_text.words import listed

#: How long a lease is valid without a renewal, besides the time that an item may take. Longer than
#: the steps between two renewals take if each is tried as often as the state machine allows, after
#: the longest pause before a block.
LEASE_SECONDS = 30 * 60 + MAX_PAUSE_SECONDS
#: How long a run may wait for its nodes.
PATIENCE_SECONDS = 12 * 3600
#: How long after the deadline of its last item a run that ended without a clean-up keeps its nodes.
GONE_SECONDS = 5 * 60


class Leased(Document):
    """Whether the run or the campaign holds its nodes, and if not, when to ask again."""

    taken: bool
    waited: bool
    """Has another run held the nodes since the plan was made?"""
    wait_seconds: int


def take_lease(run_id: str, resources: Resources) -> Leased:
    """Take the lease on all nodes of a planned run. The state machine calls it until it is taken.

    A run of a campaign uses the campaign's lease and renews it.

    Raises:
        NodesBusy: another run holds nodes, and the plan says to refuse, or `PATIENCE_SECONDS` are
            over; or the run's campaign does not hold the nodes any more.
    """
    runs = resources.store.runs
    planned, run = runs.plan(run_id), runs.get(run_id)
    seconds, plan = planned.estimates.seconds, planned.plan
    if plan.campaign is not None:
        seconds += seconds_between(run.started_at, now())
        return _use_lease(plan.campaign, run, seconds, resources)
    arms = [each.name for each in plan.node_sets(resources.settings)]
    return _take(run, arms, seconds, plan.if_busy, resources)


def take_campaign_lease(campaign_id: str, resources: Resources) -> Leased:
    """Take the lease on the nodes of all arms for a campaign. It is called until it is taken.

    Raises:
        NodesBusy: another run holds nodes, and the plan says to refuse, or `PATIENCE_SECONDS` are
            over.
    """
    campaigns = resources.store.campaigns
    planned, campaign = campaigns.plan(campaign_id), campaigns.get(campaign_id)
    seconds = 0.0 if planned.estimate is None else planned.estimate.seconds.most
    return _take(campaign, campaign.stack_arms, seconds, planned.if_busy, resources)


def _take(
    record: RunRecord | CampaignRecord,
    arms: Sequence[str],
    seconds: float,
    if_busy: IfBusy,
    resources: Resources,
) -> Leased:
    """Ask for nodes, and record whether they are held now.

    Args:
        record: what asks for them. A campaign does so for all of its runs.
        arms: the stack's arms whose nodes it needs, and `LOAD` for its load nodes.
        seconds: how long it takes from now on.
        if_busy: what to do while another one holds the nodes.
        resources: the stack's resources.
    """
    store, kind, time = resources.store, record.of_kind, now()
    seconds += seconds_between(record.started_at, time)
    held: Json = {"leased_at": record.leased_at or time, "expected_seconds": seconds}
    busy = _hold(arms, _lease(record.model_copy(update=held)), resources)
    if busy is None:
        written = store.of(kind).update(record.id, **held)
        if written is not None and not written.is_running:
            # The execution was stopped during this call, and its nodes were given back before.
            store.leases.give_back(kind, record.id)
        return Leased(taken=True, waited=record.waiting_since is not None, wait_seconds=0)
    since = record.waiting_since or time
    waited_seconds = seconds_between(since, time)
    again = f"start this {kind} again"
    if if_busy == "refuse":
        raise NodesBusy(f'{_who_holds(busy)}; {again} then, or let it wait: "if_busy": "wait"')
    if waited_seconds > PATIENCE_SECONDS:
        raise NodesBusy(
            f"{_who_holds(busy)}; this {kind} has waited {duration(waited_seconds)}; {again}"
            " when that one has ended, or stop that one's execution"
        )
    until_free = max((seconds_between(time, h.expected_end) for h in busy.values()), default=0.0)
    store.of(kind).update(
        record.id,
        phase=f"waiting for {_holders(busy)}",
        waiting_since=since,
        expected_seconds=max(0.0, until_free) + seconds,
    )
    wait_seconds = next_wait(waited_seconds, least=3, most=60, share=0.1)
    return Leased(taken=False, waited=True, wait_seconds=wait_seconds)


def _hold(arms: Iterable[str], lease: Lease, resources: Resources) -> dict[str, Lease] | None:
    """Take the nodes, also those of runs that are gone. Returns the leases of the others, by arm.

    Two that ask at once may both end a lease. One of them then takes all nodes, the other none.
    """
    requested = tuple(arms)
    busy = resources.store.leases.hold(requested, lease)
    if busy is None:
        return None
    abandoned = {arm: held for arm, held in busy.items() if _is_abandoned(held, resources)}
    if busy and not abandoned:
        return busy
    if abandoned:
        resources.store.leases.end(abandoned)
    return resources.store.leases.hold(requested, lease)


def _is_abandoned(held: Lease, resources: Resources) -> bool:
    """Whether the holder of a lease is gone, with its pods, and did not give back its nodes."""
    run = None if held.kind == "campaign" else resources.store.runs.find(held.run_id)
    campaign = None if held.kind == "run" else resources.store.campaigns.find(held.run_id)
    executions = [each for each in (run, campaign) if each is not None and each.execution_arn]
    if not executions:
        return held.expires_at < now()
    return all(_has_left(record, held, resources) for record in executions)


def _has_left(holder: RunRecord | CampaignRecord, held: Lease, resources: Resources) -> bool:
    """Whether a holder has ended, and its clean-up had time to end the lease."""
    if isinstance(holder, CampaignRecord) and holder.changed is not None:
        return False  # it, or its clean-up, has yet to put things back
    try:
        if ending_of(resources.step_functions, holder.execution_arn) is None:
            return False  # whatever a clock says; also after a redrive
    except ClientError:
        # If it goes on, it renews its lease. Its item may have any text as its execution.
        return held.expires_at < now()
    # Its clean-up ends the lease. The rest is for one whose clean-up nothing started: by then the
    # pods of its last item have exceeded their deadlines.
    past = later(held.expires_at, GONE_SECONDS - LEASE_SECONDS)
    return not holder.is_running or past < now()


def _use_lease(
    campaign_id: str, run: RunRecord, expected_seconds: float, resources: Resources
) -> Leased:
    """Let a run of a campaign use the campaign's lease."""
    campaign = resources.store.campaigns.get(campaign_id)
    lent: Json = {
        "campaign": campaign_id,
        "leased_at": campaign.leased_at or now(),
        "lease_ends_at": later(campaign.started_at, campaign.expected_seconds),
        "expected_seconds": expected_seconds,
    }
    keep_lease(run.model_copy(update=lent), resources.store)
    resources.store.runs.update(run.id, **lent)
    return Leased(taken=True, waited=False, wait_seconds=0)


def keep_lease(
    record: RunRecord | CampaignRecord | None, store: Store, *, seconds: float = 0.0
) -> None:
    """Renew the lease of a run or of a campaign.

    Args:
        record: its record. A run that a state machine of an older rackrate started has no lease.
        store: the store.
        seconds: how long the next step may take.

    Raises:
        NodesBusy: it does not hold its nodes any more.
    """
    if record is None or (isinstance(record, RunRecord) and record.leased_at is None):
        return
    lease = _lease(record, seconds)
    _check_held(record, store.leases.hold(record.stack_arms, lease, renew=True))


def retake_lease(campaign: CampaignRecord, resources: Resources) -> None:
    """Take the nodes again for a campaign that goes on after its end.

    Raises:
        NodesBusy: another run holds them.
    """
    _check_held(campaign, _hold(campaign.stack_arms, _lease(campaign), resources))


def _check_held(record: RunRecord | CampaignRecord, busy: Mapping[str, Lease] | None) -> None:
    if busy is None:
        return
    whose = f"this {record.of_kind}"
    if isinstance(record, RunRecord) and record.campaign is not None:
        whose = f"the campaign {record.campaign}"
    holders = f": {_who_holds(busy)}" if busy else ""
    raise NodesBusy(f"{whose} does not hold its nodes any more{holders}")


def held_by_campaign(arms: Iterable[str], own: str | None, resources: Resources) -> bool:
    """Whether a campaign holds nodes of arms, so that they may be gone at any moment.

    Args:
        arms: the stack's arms.
        own: the campaign of the run that asks, if it has one. Its lease does not count.
        resources: the stack's resources.
    """
    leases = resources.store.leases.valid()
    held = [leases[arm] for arm in arms if arm in leases and leases[arm].run_id != own]
    unknown = {lease.run_id for lease in held if lease.kind is None}
    return any(lease.kind == "campaign" for lease in held) or any(
        resources.store.campaigns.find(name) is not None for name in unknown
    )


def name_faults(other: RunRecord | CampaignRecord | None) -> list[Fault]:
    """Why an execution cannot have its name: what is of the other kind has it as its id.

    An id in two meanings confuses people only: of two that start at once, neither may see the
    other, and each still has a lease of its own.

    Args:
        other: the campaign with a run's id, or the run with a campaign's.
    """
    # An execution that was refused may have been refused for its name.
    if other is None or other.status == "invalid":
        return []
    problem = f"the execution's name is the id of a {other.of_kind} of this stack"
    return [Fault("$", problem, "start it under another name")]


def _lease(record: RunRecord | CampaignRecord, seconds: float = 0.0) -> Lease:
    """The lease of an execution, or of a run's campaign; `seconds` is what the next step takes."""
    holder, kind, expected_end = record.id, record.of_kind, None
    if isinstance(record, RunRecord):
        expected_end = record.lease_ends_at
        if record.campaign is not None:
            holder, kind = record.campaign, "campaign"
    return Lease(
        run_id=holder,
        kind=kind,
        taken_at=record.leased_at or now(),
        expected_end=expected_end or later(record.started_at, record.expected_seconds),
        expires_at=later(now(), LEASE_SECONDS + seconds),
    )


def _holders(busy: Mapping[str, Lease]) -> str:
    return ", and ".join(
        f"{run_id}, which holds the nodes of {listed(arms)}" for run_id, arms in _arms_of(busy)
    )


def _who_holds(busy: Mapping[str, Lease]) -> str:
    """Who holds which nodes, and until when."""
    leases = {lease.run_id: lease for lease in busy.values()}
    return "; ".join(
        f"{run_id} holds the nodes of {listed(arms)} and should end at"
        f" {moment(leases[run_id].expected_end)}"
        for run_id, arms in _arms_of(busy)
    )


def _arms_of(busy: Mapping[str, Lease]) -> list[tuple[str, list[str]]]:
    """The runs in the way, each with the arms whose nodes it holds."""
    arms: dict[str, list[str]] = {}
    for arm, lease in busy.items():
        arms.setdefault(lease.run_id, []).append(arm)
    return sorted(arms.items())
