"""The `rackrate` command: every module of `commands` registered under its name."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from .commands import baseline, campaign
from .commands.compare import compare
from .commands.doctor import doctor
from .commands.export import export
from .commands.list import list_runs
from .commands.plan import plan
from .commands.pool import pool
from .commands.report import report
from .commands.run import run
from .commands.show import show
from .commands.watch import watch
from .guard import Commands

app = typer.Typer(
    cls=Commands, rich_markup_mode="markdown", no_args_is_help=True, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rackrate {version('rackrate')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Measure what a placement group buys the pods of an EKS cluster.

    Exit codes: 0 success; 1 the run failed or a requirement is not met; 2 the input is wrong;
    130 interrupted.
    """


app.command("run")(run)
app.command("watch")(watch)
app.command("list")(list_runs)
app.command("show")(show)
app.command("plan")(plan)
app.command("compare")(compare)
app.command("pool")(pool)
app.command("report")(report)
app.command("export")(export)
app.command("doctor")(doctor)
app.add_typer(campaign.app, name="campaign")
app.add_typer(baseline.app, name="baseline")
