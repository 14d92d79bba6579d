"""The wrapper of every command: it prints a refusal as one sentence and sets the exit code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer.core import TyperGroup
from typer.exceptions import TyperException

from .errors import EXIT_INTERRUPTED, Refusal, explain
from .output import Output


class Commands(TyperGroup):
    """The group of commands. With `--json` it also prints usage errors as JSON."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Errors of the arguments occur here, before the command itself runs."""
        is_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except TyperException as error:
            # The caller prints the sentence on standard error.
            if (words := getattr(error, "format_message", None)) is not None:
                Output(is_json).document({"error": words()})
            raise


def one_sentence[**P](command: Callable[P, None]) -> Callable[P, None]:
    """Print a refusal as one line on standard error and end with its exit code.

    A command that takes `as_json` also prints it on standard output as `{"error": ...}`.
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
        except KeyboardInterrupt:
            # Only outside of what a watch follows: what was started there is stopped by the watch.
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return guarded
