"""Check links: find the pairs that the warm-up could not measure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rackrate.errors import GIVING_UP, LinksDown
from rackrate.measure.trials import TrialState
from rackrate.plan.items import block_items, planned_trials
from rackrate.resources import Resources
from rackrate_contract.document import Document
from rackrate_contract.trials import TrialKey

#: How many links the message names. The table has all of them.
_NAMED = 40
_REASON_LENGTH = 300
_NO_CONNECTION = re.compile(
    r"refused|reset|unreachable|no route|timed out|connect(?!ions)|answered|deadline|never tried",
    re.I,
)
_OPEN_LINKS = (
    "Let the security groups of the nodes and the network policies of the pods' namespaces pass the"
    " tests' traffic between these nodes. A tool that the image lacks is in the one the stack"
    " builds: ToolImage=build"
)
_OPEN_ENDPOINTS = (
    "See that the tests' tools are served at the endpoint, on the tools' own ports or the plan's,"
    " and that its security group lets in what comes from the nodes and pods"
)
_TOOLS_FAILED = (
    "The links may be open: these are the tools' own errors. Correct the tests, or leave them out."
    " A tool that the image lacks is in the one the stack builds: ToolImage=build"
)


class Links(Document):
    """How many links were tried, and how many of them are down."""

    links: int
    down: int


def check_links(run_id: str, resources: Resources) -> Links:
    """Compare the warm-up's trials with its plan; a pair without a measured trial is down.

    The run's `warnings` name the pairs that are down. The run continues if their share is within
    the plan's tolerated loss. The trials of those pairs then fail, each with its reason. So do the
    trials of a workload that cannot be measured, which is no matter of links.

    Raises:
        LinksDown: the share of pairs that are down is above the plan's tolerated loss.
        NodesUnavailable, ServersNotReady, AdmissionRefused: the run gave up in the warm-up.
    """
    store = resources.store
    planned_run = store.runs.plan(run_id)
    tolerated = planned_run.plan.tolerated_loss
    items = block_items(store.runs.items(run_id, "warm_up.json"))
    planned = planned_trials(item for item in items if item.workload is None)
    stored = store.trials.states(run_id, block=0)

    def lost(keys: Iterable[TrialKey]) -> list[TrialKey]:
        return [key for key in keys if key not in stored or not stored[key].is_measured]

    down = [
        f"arm {key.arm}, {key.client} to {key.server}: {_reason(stored.get(key))}"
        for key in lost(planned)
    ]
    outside = {arm.name for arm in planned_run.arms if arm.endpoint}
    to_endpoints = {key.arm for key in lost(planned)} <= outside
    warnings = [_message(down, len(planned), to_endpoints=to_endpoints)] if down else []
    for item in items:
        if item.workload is not None:
            what = "loading the data of" if item.phase == "load" else "warming up"
            warnings += [
                f"{what} {key.test} failed in the arm {key.arm}: {_reason(stored.get(key))}"
                for key in lost(item.trials)
            ]
    run = store.runs.update(run_id, phase="checking links", warnings=warnings)
    if run is not None and run.gave_up is not None:
        raise GIVING_UP[run.gave_up.error](run.gave_up.message)
    if len(down) > tolerated * len(planned):
        raise LinksDown(*warnings)
    return Links(links=len(planned), down=len(down))


def _reason(state: TrialState | None) -> str:
    if state is None or state.reason is None:
        return "was never tried"
    return state.reason[:_REASON_LENGTH]


def _message(down: Sequence[str], tried: int, *, to_endpoints: bool = False) -> str:
    lines = [f"{len(down)} of {tried} pairs could not be measured in the warm-up:"]
    lines += down[:_NAMED]
    if len(down) > _NAMED:
        lines.append(f"and {len(down) - _NAMED} more, in the table as trials of block 0")
    remedy = _OPEN_LINKS if any(map(_NO_CONNECTION.search, down)) else _TOOLS_FAILED
    return "\n".join([*lines, _OPEN_ENDPOINTS if to_endpoints else remedy])
