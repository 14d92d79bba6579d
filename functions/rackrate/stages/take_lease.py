"""Take lease: reserve the nodes of the plan's arms, or wait for the run that has them.

Two runs on the same nodes would share their network, and both would measure too little. So a run
holds a lease on its nodes from here to its end. The servers' and the items' steps renew it. It
expires when its run is gone without having given it back.
"""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.document import Document
from rackrate.errors import NodesBusy
from rackrate.plan.fields import MAX_PAUSE_SECONDS
from rackrate.resources import Resources
from rackrate.store import Lease, RunRecord, Store, later, now, seconds_between
from rackrate_text.units import duration, moment
from rackrate_text.words import listed

#: How long a lease is valid without a renewal, besides the time that an item may take. Longer than
#: the steps between two renewals take if each is tried as often as the state machine allows, after
#: the longest pause before a block.
LEASE_SECONDS = 30 * 60 + MAX_PAUSE_SECONDS
#: How long a run may wait for its nodes.
PATIENCE_SECONDS = 12 * 3600
#: The shortest and the longest time between two questions. With the longest, the execution's
#: history stays far below Step Functions' limit of 25 000 events.
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 3, 60
#: A run asks again after this share of the time that it has waited so far.
_SHARE = 0.1


class Leased(Document):
    """Whether the run holds its nodes, and if not, when to ask again."""

    taken: bool
    waited: bool
    """Has another run held the nodes since the plan was made?"""
    wait_seconds: int


def take_lease(run_id: str, resources: Resources) -> Leased:
    """Take the lease on all nodes of a planned run. The state machine calls it until it is taken.

    Raises:
        NodesBusy: another run holds nodes, and the plan says to refuse, or `PATIENCE_SECONDS` are
            over.
    """
    store = resources.store
    planned, run = store.plan(run_id), store.run(run_id)
    if run is None:
        raise LookupError(f"the run {run_id} is not in the table")
    time = now()
    leased_at = run.leased_at or time
    seconds = seconds_between(run.started_at, time) + planned.estimates.seconds
    lease = _lease(run_id, leased_at, later(run.started_at, seconds))
    busy = store.hold_nodes(planned.plan.stack_arms, lease)
    if busy is None:
        written = store.update_run(run_id, leased_at=leased_at, expected_seconds=seconds)
        if written is not None and not written.is_running:
            # The execution was stopped during this call, and its nodes were given back before.
            store.give_back_nodes(run_id)
        return Leased(taken=True, waited=run.waiting_since is not None, wait_seconds=0)
    since = run.waiting_since or time
    waited = seconds_between(since, time)
    if planned.plan.if_busy == "refuse":
        remedy = 'start this run again then, or let it wait: "if_busy": "wait"'
        raise NodesBusy(f"{_told(busy)}; {remedy}")
    if waited > PATIENCE_SECONDS:
        remedy = "start this run again when that one has ended, or stop that one's execution"
        raise NodesBusy(f"{_told(busy)}; this run has waited {duration(waited)}; {remedy}")
    until_free = max(seconds_between(time, lease.expected_end) for lease in busy.values())
    store.update_run(
        run_id,
        phase=f"waiting for {_holders(busy)}",
        waiting_since=since,
        expected_seconds=max(0.0, until_free) + seconds,
    )
    wait_seconds = min(max(_SHORTEST_WAIT_SECONDS, _SHARE * waited), _LONGEST_WAIT_SECONDS)
    return Leased(taken=False, waited=True, wait_seconds=int(wait_seconds))


def keep_lease(run: RunRecord | None, store: Store, *, seconds: float = 0.0) -> None:
    """Renew a run's lease.

    Args:
        run: the run. One that a state machine of an older rackrate started has no lease.
        store: the store.
        seconds: how long the next step may take.

    Raises:
        NodesBusy: the run does not hold its nodes any more.
    """
    if run is None or run.leased_at is None:
        return
    expected_end = later(run.started_at, run.expected_seconds)
    lease = _lease(run.run_id, run.leased_at, expected_end, seconds)
    busy = store.hold_nodes(run.stack_arms, lease, renew=True)
    if busy is not None:
        holders = f": {_told(busy)}" if busy else ""
        raise NodesBusy(f"this run does not hold its nodes any more{holders}")


def _lease(run_id: str, taken_at: str, expected_end: str, seconds: float = 0.0) -> Lease:
    return Lease(
        run_id=run_id,
        taken_at=taken_at,
        expected_end=expected_end,
        expires_at=later(now(), LEASE_SECONDS + seconds),
    )


def _holders(busy: Mapping[str, Lease]) -> str:
    return ", and ".join(
        f"{run_id}, which holds the nodes of {listed(arms)}" for run_id, arms in _arms_of(busy)
    )


def _told(busy: Mapping[str, Lease]) -> str:
    """Who holds which nodes, and until when."""
    leases = {lease.run_id: lease for lease in busy.values()}
    return "; ".join(
        f"{run_id} holds the nodes of {listed(arms)} and should end at"
        f" {moment(leases[run_id].expected_end)}; if it is gone, its lease expires at"
        f" {moment(leases[run_id].expires_at)}"
        for run_id, arms in _arms_of(busy)
    )


def _arms_of(busy: Mapping[str, Lease]) -> list[tuple[str, list[str]]]:
    """The runs in the way, each with the arms whose nodes it holds."""
    arms: dict[str, list[str]] = {}
    for arm, lease in busy.items():
        arms.setdefault(lease.run_id, []).append(arm)
    return sorted(arms.items())
