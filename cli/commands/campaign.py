"""`rackrate campaign`: answer for the placement group over draws of it, or sweep values."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..completion import complete_campaign
from ..errors import Refusal
from ..following.campaign_outcome import (
    FollowedCampaign,
    conclude_campaign,
    files_of,
    print_campaign,
    require_answers,
)
from ..following.outcome import (
    AtEnd,
    check,
    conclude_shown,
    run_to_the_end,
    watch_to_the_end,
)
from ..options import OutOption, PlanOption, RequireOption, SeedOption, VerboseOption
from ..printing.answers import campaign_table
from ..printing.failures import explain_end
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import describe_campaign
from ..reading import files
from ..reading.campaign_input import (
    Options,
    as_text,
    check_about_arms,
    check_requirements,
    read_campaign,
)
from ..reading.campaigns import Campaign
from ..reading.kinds import CAMPAIGN
from ..reading.plan import Json
from ..reading.requirements import Requirement, parse_requirements
from ..reading.run_ids import checked_id, find_finished, find_record, new_id
from ..reading.stack import Stack
from ..sentences import Command, Group, one_sentence

app = typer.Typer(
    cls=Group,
    help="Answer for the placement group, over draws of new nodes.\n\nExample: rackrate campaign"
    " run --dry-run",
    no_args_is_help=True,
)

CampaignArgument = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN",
        help="A campaign's id, or latest.",
        autocompletion=complete_campaign,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="JSON file of the campaign, or - for standard input; default: {}.",
    ),
]
DrawsOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|LEAST-MOST", help="How many draws of new nodes; the stack's default: 4-12."
    ),
]
SweepOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT=VALUE,...",
        help="Change one thing from step to step instead: vpc_cni, kube_proxy, ami_release,"
        " instance_type or nodes.",
    ),
]
RunsPerStepOption = Annotated[
    int | None,
    typer.Option("--runs-per-step", metavar="N", help="Runs for each value of a sweep."),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(metavar="DOLLARS", help="What it may cost; the stack's default: 5."),
]
SeriesOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Add the draws to those of this name.")
]
ContinueOption = Annotated[
    str | None,
    typer.Option(
        "--continue",
        metavar="CAMPAIGN",
        help="Go on with the steps of a campaign that ended; a hunt looks at its nodes again.",
        autocompletion=complete_campaign,
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only plan: print steps, time, cost and draws needed.")
]


@app.command("run", cls=Command)
@one_sentence
def run_campaign(
    file: FileOption = None,
    plan: PlanOption = None,
    draws: DrawsOption = None,
    sweep: SweepOption = None,
    runs_per_step: RunsPerStepOption = None,
    budget: BudgetOption = None,
    series: SeriesOption = None,
    continues: ContinueOption = None,
    seed: SeedOption = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The campaign's id; default: one made from the time."),
    ] = None,
    out: OutOption = Path("out"),
    require: RequireOption = None,
    dry_run: DryRunOption = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return after the start, and print the campaign's id.")
    ] = False,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a campaign and print its answers.

    Ctrl-C stops the campaign and waits until what it changed is put back.

    Example: rackrate campaign run --draws 4-12 --budget 5 --require 'tcp-1 better'
    """
    options = Options(
        file, plan, draws, sweep, runs_per_step, budget, series, continues, seed, dry_run
    )
    output = Output(as_json, is_verbose=verbose)
    at_end = AtEnd(parse_requirements(require or ()), out)
    _start(output, stack_name, options, at_end, name=name, detach=detach)


def _start(
    output: Output,
    stack_name: str,
    options: Options,
    at_end: AtEnd,
    *,
    name: str | None = None,
    detach: bool = False,
) -> None:
    """Start a campaign, and follow it to its end unless it is to be detached."""
    document = read_campaign(options)
    check_requirements(at_end.requirements, document, detach=detach)
    campaign_id = new_id("campaign") if name is None else checked_id(CAMPAIGN, name)
    if at_end.out is not None and not detach:
        files.prepare(at_end.out)
    stack = _stack(stack_name)
    if options.continues is not None:
        before = find_finished(stack, CAMPAIGN, options.continues)
        if options.hunt is not None and before.kind != "hunt":
            raise Refusal(f"{before.id} is no hunt; use `rackrate campaign run --continue`.")
        document["continue"] = before.id
    text = as_text(document, options)
    output.note(f"Campaign {campaign_id} on stack {stack.name}")
    followed = FollowedCampaign(stack, campaign_id)
    begin = partial(stack.start, CAMPAIGN, campaign_id, text)
    run_to_the_end(output, followed, begin, conclude_campaign, at_end, detach=detach)


@app.command("hunt", cls=Command)
@one_sentence
def hunt_nodes(
    test: Annotated[
        str | None, typer.Argument(metavar="TEST", help="The test to hunt by, such as rtt.")
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="A metric of it.")] = None,
    arm: Annotated[str | None, typer.Option(metavar="ARM", help="Whose nodes to draw.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="ENDPOINT", help="What to measure towards: instance.")
    ] = None,
    at_most: Annotated[str | None, typer.Option(metavar="VALUE", help="Such as 90us.")] = None,
    at_least: Annotated[str | None, typer.Option(metavar="VALUE", help="Such as 9Gbit/s.")] = None,
    best_share: Annotated[float | None, typer.Option(metavar="SHARE", help="As 0.1.")] = None,
    dollars_per_percent: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="What 1 % is worth.")
    ] = None,
    most: Annotated[int | None, typer.Option(metavar="N", min=1, max=60, help="Draws.")] = None,
    plan: PlanOption = None,
    budget: BudgetOption = None,
    continues: ContinueOption = None,
    out: OutOption = Path("out"),
    dry_run: DryRunOption = False,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw new nodes until the present ones are good enough, and leave them.

    Good enough is a value, a share of the best placements, or what 1 % is worth. Without any it
    stops where the expected rank among the draws is best. The default is 12 draws of the first arm
    that is not the baseline, by the test's primary metric.

    Example: rackrate campaign hunt rtt --at-most '90 us' --most 12 --budget 5
    """
    goal: dict[str, Json] = {
        "test": test,
        "metric": metric,
        "arm": arm,
        "endpoint": endpoint,
        "at_most": at_most,
        "at_least": at_least,
        "best_share": best_share,
        "dollars_per_percent": dollars_per_percent,
    }
    options = Options(
        plan=plan,
        draws=None if most is None else str(most),
        budget=budget,
        continues=continues,
        dry_run=dry_run,
        hunt={field: value for field, value in goal.items() if value is not None},
    )
    _start(Output(as_json, is_verbose=verbose), stack_name, options, AtEnd((), out))


@app.command("watch", cls=Command)
@one_sentence
def watch_campaign(
    campaign_id: CampaignArgument,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for the results; default: none are fetched."),
    ] = None,
    require: RequireOption = None,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Follow a campaign to its end and print its answers.

    Ctrl-C ends this command. The campaign continues.

    Example: rackrate campaign watch latest
    """
    at_end = AtEnd(_parsed(require), out)
    if out is not None:
        files.prepare(out)
    stack = _stack(stack_name)
    output = Output(as_json, is_verbose=verbose)
    watch_to_the_end(output, stack, campaign_id, FollowedCampaign, conclude_campaign, at_end)


@app.command("show", cls=Command)
@one_sentence
def show_campaign(
    campaign_id: CampaignArgument,
    require: RequireOption = None,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the answers of an earlier campaign again, or the progress of a campaign.

    Example: rackrate campaign show latest --require 'requests not worse'
    """
    requirements = _parsed(require)
    stack = _stack(stack_name)
    record = (find_finished if requirements else find_record)(stack, CAMPAIGN, campaign_id)
    stored = files_of(stack, record.id, record)
    output = Output(as_json, is_verbose=verbose)
    print_campaign(output, record, stored)
    _print_state(output, record)
    error = explain_end(output, record)
    checks = []
    if requirements:
        checks = check(output, requirements, require_answers(record.id, stored))
    raise typer.Exit(conclude_shown(output, CAMPAIGN, record, stored, checks, error))


@app.command("list", cls=Command)
@one_sentence
def list_campaigns(
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="At most so many campaigns.")
    ] = 20,
    stack: StackOption = "rackrate",
    as_json: JsonOption = False,
) -> None:
    """List campaigns, newest first.

    Example: rackrate campaign list --limit 5
    """
    output = Output(as_json)
    campaigns = _stack(stack).records(CAMPAIGN, limit)
    if campaigns:
        output.print(campaign_table(campaigns))
    else:
        output.say(
            f'The stack "{stack}" has no campaigns yet; start one with `rackrate campaign run`.'
        )
    output.document({"campaigns": [campaign.as_document() for campaign in campaigns]})


def _print_state(output: Output, record: Campaign) -> None:
    output.say(f"Campaign {record.id}: {record.status.replace('_', ' ')}")
    if not record.is_over:
        output.say(f"Now: {describe_campaign(record).replace('\n', ', ')}")
        output.say(f"`rackrate campaign watch {record.id}` follows it to its end.")
    elif record.must_put_back:
        output.say("What it changed is not put back yet; the stack goes on with that.")


def _parsed(texts: list[str] | None) -> tuple[Requirement, ...]:
    requirements = parse_requirements(texts or ())
    check_about_arms(requirements)
    return requirements


def _stack(name: str) -> Stack:
    """The stack of this name. Raises Refusal when its version has no campaigns."""
    stack = Stack.find(name)
    stack.check_campaigns()
    return stack
