"""The `rackrate` command: every module of `commands` registered under its name."""

from __future__ import annotations

import typer

from .commands import baseline
from .commands.doctor import doctor
from .commands.list import list_runs
from .commands.report import report
from .commands.run import run
from .commands.show import show

app = typer.Typer(
    help="Measure what a placement group buys the pods of an EKS cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("run")(run)
app.command("show")(show)
app.command("list")(list_runs)
app.command("report")(report)
app.command("doctor")(doctor)
app.add_typer(baseline.app, name="baseline")
