"""`rackrate doctor`: check everything that a run needs, and say how to fix what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import boto3
import typer
from botocore.exceptions import NoRegionError
from rich.table import Table
from rich.text import Text

from ..diagnosis import access, addons, cluster, instances, parts, quotas, runs
from ..diagnosis.check import Check, failed, look
from ..errors import EXIT_FAILED, EXIT_USAGE, Refusal, explain
from ..printing.output import JsonOption, Output, StackOption
from ..printing.verdict import add_columns, listing
from ..reading.stack import Stack, client_of, session_of_environment
from ..sentences import one_sentence

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "unknown": "dim"}

_CHECKS: tuple[tuple[str, Callable[[Stack], Check | Iterable[Check]]], ...] = (
    ("stack", parts.stack_state),
    ("state machine", parts.state_machine),
    ("table", parts.table),
    ("bucket", parts.bucket),
    ("cluster", cluster.cluster),
    ("Kubernetes version", cluster.version_support),
    ("node groups", cluster.node_groups),
    ("add-ons", addons.addons),
    ("instance type", instances.instance_type),
    ("placement group", quotas.placement_group),
    ("image", parts.image),
    ("vCPU quota", quotas.vcpus),
    ("Lambda concurrency", quotas.concurrency),
    ("last runs", runs.last_runs),
    ("alarms", parts.alarms),
    ("leftovers", runs.leftovers),
    ("control plane logs", runs.log_groups),
    ("your kubectl", cluster.kubectl),
)


@one_sentence
def doctor(
    stack_name: StackOption = "rackrate",
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out the dry run that proves cluster access.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check credentials, stack, cluster, images and quotas, and say what to do.

    A dry run checks that the functions can access the cluster. It measures nothing and costs
    less than a cent. Exit code: 0 nothing failed, 1 a check failed, 2 no stack or no credentials.

    Example: rackrate doctor --quick
    """
    output = Output(as_json)
    checks, stack = _entrance(stack_name)
    stopped = 0
    try:
        for check in _of_stack(stack, output, quick=quick) if stack is not None else ():
            checks.append(check)
    except typer.Exit as interruption:
        stopped = interruption.exit_code  # still print the findings so far
    worst = any(check.state == "failed" for check in checks)
    code = stopped or (EXIT_USAGE if stack is None else EXIT_FAILED if worst else 0)
    output.print(table(checks))
    output.say(_summary(checks))
    output.document(
        {
            "stack": stack_name,
            "healthy": not worst,
            "checks": [check.as_json() for check in checks],
        }
    )
    raise typer.Exit(code)


def _entrance(name: str) -> tuple[list[Check], Stack | None]:
    """Check what all other checks need: Region, credentials and the stack.

    Returns None for the stack when one of the three is missing.
    """
    try:
        session = session_of_environment()
    except Refusal as unknown:
        return [failed("Region", unknown)], None
    region = Check("Region", "ok", str(session.region_name))
    if session.region_name is None:
        return [failed("Region", explain(NoRegionError()))], None
    who = look("credentials", lambda: _credentials(session))
    if any(check.state == "failed" for check in who):
        return [region, *who], None
    try:
        return [region, *who], Stack.find(name)
    except Exception as error:
        return [region, *who, failed("stack", explain(error))], None


def _credentials(session: boto3.Session) -> Check:
    caller = client_of(session, "sts").get_caller_identity()
    return Check("credentials", "ok", caller["Arn"])


def _of_stack(stack: Stack, output: Output, *, quick: bool) -> Iterator[Check]:
    for name, check in _CHECKS:
        yield from look(name, lambda check=check: check(stack))  # type: ignore[misc]
    if not quick:
        yield from look("cluster access", lambda: access.access(stack, output))


def table(checks: Iterable[Check]) -> Table:
    """The findings, each with its remedy below it."""
    shown = listing()
    add_columns(shown, "Check", "State", no_wrap=True)
    shown.add_column("Found", overflow="fold")
    for check in checks:
        shown.add_row(
            Text(check.name), Text(check.state, style=_STYLES[check.state]), _finding(check)
        )
    return shown


def _finding(check: Check) -> Text:
    text = Text(check.finding)
    if check.remedy:
        text.append(f"\nTo do: {check.remedy}", style="yellow" if check.state != "ok" else "dim")
    return text


def _summary(checks: Iterable[Check]) -> str:
    counts: Counter[str] = Counter(check.state for check in checks)
    return ", ".join(f"{counts[state]} {state}" for state in _STYLES if state in counts) + "."
