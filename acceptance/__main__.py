"""`python -m acceptance`: deploy the stack, try all that it does, delete it, record what AWS said.

Exit codes: 0 every check passed, 1 one failed, 2 the input or the account is not right.
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rackrate_cli.errors import Refusal
from rackrate_cli.options import SetOption, assigned
from rackrate_cli.reading.stack import session_of_environment
from rackrate_cli.sentences import one_sentence
from rich.console import Console
from rich.table import Table

from acceptance.archive import written
from acceptance.functions import observed
from acceptance.parts import PARTS
from acceptance.script import Script
from rackrate.plan import prices

console = Console(highlight=False, soft_wrap=True)
#: An hour of the NAT gateway with its address and of the rest (docs/cost.md).
OTHER_DOLLARS_PER_HOUR = 0.06


def accept(
    parts: Annotated[
        list[str] | None, typer.Option("--part", help="Only this part, deploy and delete; again.")
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Leave out what takes long.")] = False,
    budget: Annotated[float, typer.Option(min=0, help="Dollars after which it deletes.")] = 10.0,
    parameters: SetOption = None,
    stack: Annotated[str, typer.Option(help="The name of the stack to make.")] = "acceptance",
    out: Annotated[Path | None, typer.Option(help="Directory for report and archive.")] = None,
    sam: Annotated[str, typer.Option(help="The Python module that is the SAM CLI.")] = "samcli",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print time and dollars.")
    ] = False,
) -> None:
    """Judge the stack: deploy it as a person does, try all that it does, delete it."""
    chosen = _chosen(parts or [], short)
    values = {"InstanceType": "c5.large", "RetainResults": "false", **assigned(parameters or ())}
    when = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    directory = (out or Path("out") / f"acceptance-{when}").absolute()
    script = Script(stack, values, short, directory, console.print, sam)
    rate = _rate(script)
    _print_estimate(chosen, rate)
    needed = sum(PARTS[name].minutes for name in chosen) / 60 * rate
    if needed > budget:
        raise Refusal(f"That is more than the budget of ${budget:.2f}: set BUDGET or PARTS.")
    if dry_run:
        return
    if script.described() is not None:
        raise Refusal(
            f"There is a stack {stack}: remove it with `rackrate down --stack {stack}`,"
            " or name another with --stack."
        )
    _try(script, chosen, budget, rate)


def _chosen(requested: list[str], short: bool) -> list[str]:
    unknown = sorted(set(requested) - PARTS.keys())
    if unknown:
        raise Refusal(f"There is no part {unknown[0]}: the parts are {', '.join(PARTS)}.")
    if requested:
        return [name for name in PARTS if name in {*requested, "deploy", "delete"}]
    return [name for name, part in PARTS.items() if part.is_short or not short]


def _rate(script: Script) -> float:
    """Dollars for an hour of the stack. Raises Refusal for a type without a known price."""
    region = script.session.region_name
    node = prices.instance_hour(script.parameters["InstanceType"])
    # Not recorded: these are no calls of a part.
    pricing = prices.client(session_of_environment(), region)
    priced = prices.prices([node, prices.CLUSTER_HOUR], region=region, pricing=pricing)
    if None in (amounts := [priced[node].usd, priced[prices.CLUSTER_HOUR].usd]):
        raise Refusal(f"The price of {script.parameters['InstanceType']} in {region} is not known.")
    hour, cluster = (float(amount or 0) for amount in amounts)
    nodes = int(script.parameters.get("NodeCount", 2)) * 2
    return nodes * hour + cluster + OTHER_DOLLARS_PER_HOUR


def _print_estimate(chosen: list[str], rate: float) -> None:
    table = Table("part", "minutes on AWS", "dollars", title="Estimate")
    for name in chosen:
        minutes = PARTS[name].minutes
        table.add_row(name, str(minutes), f"{minutes / 60 * rate:.2f}")
    total = sum(PARTS[name].minutes for name in chosen)
    table.add_row("all", str(total), f"{total / 60 * rate:.2f}", style="bold")
    console.print(table)


def _try(script: Script, chosen: list[str], budget: float, rate: float) -> None:
    """Try the parts; whatever happens, the last one deletes the stack, and the record is kept."""
    functions = []
    *tried, last = chosen
    try:
        for name in tried:
            ahead = PARTS[name].minutes + PARTS[last].minutes
            spent = ((time.time() - script.began) / 3600 + ahead / 60) * rate
            if spent > budget:
                script.check("the budget suffices", False, f"${spent:.2f} with the part {name}")
                break
            _do(script, name)
            if not all(each.passed for each in script.findings if each.part == "deploy"):
                break
        if script.described() is not None:
            functions = observed(script)
    except KeyboardInterrupt:
        script.check("nobody interrupted it", False, f"in the part {script.part}")
    except (BotoCoreError, ClientError) as error:
        script.check("CloudTrail and the logs show what the functions did", False, error)
    finally:
        _do(script, last)
        archive = written(script, chosen, functions)
    failed = sum(not finding.passed for finding in script.findings)
    console.print(f"{len(script.findings)} checks, {failed} failed.")
    console.print(f"Report: {archive.parent / 'report.md'}\nArchive: {archive}")
    raise typer.Exit(1 if failed else 0)


def _do(script: Script, name: str) -> None:
    script.part = script.recorder.part = name
    console.print(f"[bold]{name}[/bold]: {(PARTS[name].do.__doc__ or '').splitlines()[0]}")
    try:
        PARTS[name].do(script)
    except (Refusal, BotoCoreError, ClientError, LookupError, ValueError) as error:
        script.check(f"{name} comes to its end", False, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    typer.run(one_sentence(accept))
