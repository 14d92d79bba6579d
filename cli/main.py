"""The `rackrate` command: every module of `commands` registered under its name."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from .commands import baseline, campaign
from .commands.compare import compare
from .commands.doctor import doctor
from .commands.down import down
from .commands.export import export
from .commands.list import list_runs
from .commands.nodes import nodes
from .commands.open import open_page
from .commands.plan import plan
from .commands.pool import pool
from .commands.report import report
from .commands.run import run
from .commands.show import show
from .commands.up import up
from .commands.watch import watch
from .printing.output import StackOption
from .sentences import Command, Commands

app = typer.Typer(
    cls=Commands,
    # Every command inherits the names.
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Documentation: README.md and docs/ in the repository; docs/cli.md has every command.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"rackrate {version('rackrate')}")
        raise typer.Exit


@app.callback()
def main(
    stack: StackOption = "rackrate",
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Measure what a placement group buys the pods of an EKS cluster.

    Exit codes: 0 success; 1 the run failed or a requirement is not met; 2 the input is wrong;
    3 AWS does not answer, so the end is unknown; 130 interrupted.
    """


_MEASURE = "Measure"
_LOOK = "Look at results"
_COMPARE = "Compare"
_CHECK = "Check what a run needs"
_DEPLOY = "Deploy the stack"

for _name, _command, _panel in (
    ("run", run, _MEASURE),
    ("watch", watch, _MEASURE),
    ("plan", plan, _MEASURE),
    ("list", list_runs, _LOOK),
    ("show", show, _LOOK),
    ("nodes", nodes, _LOOK),
    ("open", open_page, _LOOK),
    ("report", report, _LOOK),
    ("export", export, _LOOK),
    ("compare", compare, _COMPARE),
    ("pool", pool, _COMPARE),
    ("doctor", doctor, _CHECK),
    ("up", up, _DEPLOY),
    ("down", down, _DEPLOY),
):
    app.command(_name, cls=Command, rich_help_panel=_panel)(_command)
app.add_typer(campaign.app, name="campaign", rich_help_panel=_MEASURE)
app.add_typer(baseline.app, name="baseline", rich_help_panel=_COMPARE)
