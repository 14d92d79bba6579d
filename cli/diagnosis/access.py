"""Check the functions' access to the cluster with a dry run, which has to find the nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import typer

from rackrate_text.failures import lines_of

from ..following.watch import FollowedRun, Interruption, Watch
from ..printing.output import Output
from ..printing.progress import display_for
from ..reading.kinds import RUN
from ..reading.run_ids import new_id
from ..reading.runs import Run
from ..reading.stack import Execution, Outcome, Stack
from .check import Check

_NAME = "cluster access"

# Remedies for the errors of a dry run. The messages of other errors contain their remedy.
_REMEDIES = {
    "ClusterUnreachable": "see the cluster's endpoint access, and the functions' access entries",
    "NodesUnavailable": "see the node groups' health in the EKS console",
    "InvalidPlan": "see that both arms have Ready nodes",
    "Throttled": "try again in a minute",
}


class _DryRun(Watch[Run]):
    """Follow a dry run: show that the command waits, and no phases or blocks."""

    def _show(self, execution: Execution, record: Run | None, stopped: bool) -> None:
        seconds = time.monotonic() - self._began
        self.display.show("asking the functions for a dry run", seconds, None)


def access(stack: Stack, output: Output) -> list[Check]:
    """Start a dry run and check which nodes and which prices it found.

    It measures nothing and costs under a cent.

    Raises typer.Exit when a signal stops it.
    """
    run_id = new_id("doctor")
    with Interruption() as interruption:
        stack.start(RUN, run_id, json.dumps({"dry_run": True}))
        followed, display = FollowedRun(stack, run_id), display_for(output.errors)
        ended = _DryRun(followed, display, interruption).until_over()
    if interruption.count:
        raise typer.Exit(interruption.exit_code)
    content = stack.file(run_id, "plan.json")
    planned: Any = None if content is None else json.loads(content)
    check = access_check(run_id, ended, planned, expected=stack.parameters.get("NodeCount"))
    return [check] if planned is None else [check, prices_check(planned)]


def access_check(
    run_id: str, ended: Outcome[Run], planned: Mapping[str, Any] | None, *, expected: str | None
) -> Check:
    """Turn the end of a dry run into a finding. `planned` is its plan.json, None without one."""
    execution = ended.execution
    if execution.status != "SUCCEEDED":
        error = execution.error or execution.status
        cause = " ".join(lines_of(execution.cause)) or "no cause given"
        remedy = _REMEDIES.get(error, f"`rackrate show {run_id}` shows more")
        return Check(_NAME, "failed", f"the dry run {run_id} ended with {error}: {cause}", remedy)
    if planned is None:
        return Check(_NAME, "unknown", f"the dry run {run_id} left no plan.json")
    if planned.get("placeholder_nodes"):
        return Check(
            _NAME,
            "unknown",
            "the nodes are at rest, and a dry run wakes none",
            "nothing; a run will wake them and show",
        )
    counts = {arm["name"]: len(arm["nodes"]) for arm in planned["arms"]}
    finding = "the functions see " + " and ".join(
        f"{count} Ready nodes of the {name}" for name, count in counts.items()
    )
    if expected and planned["arms"][0].get("node_groups") and min(counts.values()) < int(expected):
        return Check(
            _NAME,
            "warning",
            f"{finding}, of {expected} each",
            "wait for the others, or see `kubectl get nodes`",
        )
    return Check(_NAME, "ok", f"{finding} (dry run {run_id})")


def prices_check(planned: Mapping[str, Any]) -> Check:
    """Turn the estimate in a run's plan.json into a finding on where its prices come from."""
    cost: Mapping[str, Any] = (planned.get("estimates") or {}).get("cost") or {}
    if not cost:
        return Check("prices", "unknown", "the dry run left no estimate of its cost")
    notes, unknown = cost.get("notes") or (), cost.get("unknown") or ()
    if not notes and not unknown:
        return Check("prices", "ok", f"all from the Price List API, for {cost.get('region')}")
    missing = [f"no price of {what}" for what in unknown]
    return Check(
        "prices",
        "warning",
        "; ".join([*missing, *notes]),
        "let the plan function reach the Price List API, or compare the estimate's prices with AWS",
    )
