"""What stands around every command: a refusal is printed as one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer.core import TyperGroup
from typer.exceptions import TyperException

from .errors import Refusal, explain
from .output import Output


class Commands(TyperGroup):
    """The commands; what a program asks for wrongly (`--json`) is answered in JSON, too."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An option that does not exist is found here, before the command is."""
        is_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except TyperException as error:
            # The sentence itself goes to standard error, by whoever called.
            if (words := getattr(error, "format_message", None)) is not None:
                Output(is_json).document({"error": words()})
            raise


def one_sentence[**P](command: Callable[P, None]) -> Callable[P, None]:
    """Print a refusal as one line on standard error and end with its exit code.

    A command that takes `as_json` then also says it on standard output, as `{"error": ...}`.
    """

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (Refusal, BotoCoreError, ClientError) as error:
            refusal = error if isinstance(error, Refusal) else explain(error)
            output = Output(bool(kwargs.get("as_json")))
            output.complain(str(refusal))
            output.document({"error": str(refusal)})
            raise typer.Exit(refusal.exit_code) from error

    return guarded
