"""Check links: which pairs could not talk to each other when they were warmed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rackrate.errors import LinksDown
from rackrate.schedule import planned_trials
from rackrate.store import Store

Json = dict[str, Any]

#: Links that are named one by one; the table holds them all.
_NAMED = 40
_REASON_LENGTH = 300
REMEDY = (
    "Let the security groups of the nodes and the network policies of the pods' namespaces pass the"
    " tests' traffic between these nodes. A tool that the image lacks is in the one the stack"
    " builds: ToolImage=build"
)


def check_links(run_id: str, *, store: Store) -> Json:
    """Compares the warm-up's trials with what it planned; a pair that was not measured is down.

    They are noted in the run's `warnings`. As many as the plan tolerates lost trials do not end the
    run; the trials of those pairs will be lost and say why.

    Returns:
        links: how many were tried.
        down: how many are down.

    Raises:
        LinksDown: more are down than the plan tolerates.
    """
    tolerated = store.get_json(run_id, "plan.json")["plan"]["tolerated_loss"]
    planned = planned_trials(store.get_json(run_id, "warm_up.json"))
    stored = store.trial_states(run_id, block=0)
    down = [
        f"arm {trial.key.arm}, {trial.key.client} to {trial.key.server}:"
        f" {found.get('reason', 'was never tried')[:_REASON_LENGTH]}"
        for trial in planned
        if (found := stored.get(trial.key, {})).get("status") != "measured"
    ]
    told = [_message(down, len(planned))] if down else []
    store.update_run(run_id, {"phase": "checking links", "warnings": told})
    if len(down) > tolerated * len(planned):
        raise LinksDown(*told)
    return {"links": len(planned), "down": len(down)}


def _message(down: Sequence[str], tried: int) -> str:
    lines = [f"{len(down)} of {tried} pairs could not talk when they were warmed up:"]
    lines += down[:_NAMED]
    if len(down) > _NAMED:
        lines.append(f"and {len(down) - _NAMED} more, in the table as trials of block 0")
    return "\n".join([*lines, REMEDY])
