"""Options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from .completion import complete_run
from .errors import Refusal

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or latest.", autocompletion=complete_run)
]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="JSON file of the plan, or - for standard input; default: {}.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Seed of the shuffled order; replaces the plan's."),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the results.")]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="REQUIREMENT",
        help="Fail unless a verdict is so, for example 'tcp-1 better' or 'requests not worse';"
        " again for more. 'than before' asks about compare_with, which needs four runs.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other parameter of the stack; again for more."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        "--junit", metavar="FILE", help="Also write the verdicts as JUnit XML to this file."
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also print variability, explanations, marks and the conclusion.",
    ),
]


def check_junit(path: Path | None) -> None:
    """Raise Refusal when the command could not write a file there at the end of the run."""
    if path is None:
        return
    if path.is_dir():
        raise Refusal(f"{path} is a directory; name a file with --junit.")
    if not path.parent.is_dir():
        raise Refusal(f"There is no directory {path.parent}; make it, or change --junit.")


def assigned(texts: Iterable[str]) -> dict[str, str]:
    """The parameters that `--set` names. Raises Refusal."""
    parameters: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9]+", name):
            raise Refusal(f"--set {text!r} is not NAME=VALUE; see docs/parameters.md for names.")
        if name in parameters:
            raise Refusal(f"{name} is given twice; leave one --set out.")
        parameters[name] = value
    return parameters


def confirm(yes: bool, action: str, effect: str) -> None:
    """Ask whether to do something, such as `delete the stack`. Raises Refusal unless it may be.

    `yes` is the answer of `--yes`, and `effect` a sentence that follows the question.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refusal(f"Nobody can be asked whether to {action}; add --yes.")
    if not typer.confirm(f"{action[0].upper()}{action[1:]}? {effect}", err=True):
        raise Refusal("Nothing was changed.")
