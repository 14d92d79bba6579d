"""What every command shares: its help, and a refusal as one sentence with an exit code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from .errors import EXIT_INTERRUPTED, Refusal, explain
from .output import Output


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters without the types of flags and arguments, such as `<bool>`, in their help."""
    for param in params:
        is_flag = isinstance(param, TyperOption) and param.is_flag
        if is_flag or isinstance(param, TyperArgument):
            param.display_type_rich = _no_type
    return params


def _no_type(ctx: Any) -> None:
    """Show no type."""


class Command(TyperCommand):
    """A command whose help names values and not types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, as the help shows them."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group whose help names values and not types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, as the help shows them."""
        return _without_types(super().get_params(ctx))


class Commands(Group):
    """The group of all commands. With `--json` it also prints usage errors as JSON."""

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

    A command that takes `as_json` also prints it on standard output as `{"error": ...}`,
    with the refusal's details.
    """

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (Refusal, BotoCoreError, ClientError) as error:
            refusal = error if isinstance(error, Refusal) else explain(error)
            output = Output(bool(kwargs.get("as_json")))
            output.complain(str(refusal))
            output.document({"error": str(refusal), **refusal.details})
            raise typer.Exit(refusal.exit_code) from error
        except KeyboardInterrupt:
            # Only outside of what a watch follows: what was started there is stopped by the watch.
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return guarded
