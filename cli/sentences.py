"""What every command shares: its help, and a refusal as one sentence with an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from .errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNKNOWN, explain
from .printing.failures import RunFailure
from .printing.junit import junit_xml
from .printing.output import Output, complain, discard
from .reading.files import write


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

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, in a terminal of whatever width and encoding."""
        if os.environ.get("COLUMNS", "").isdigit() and not int(os.environ["COLUMNS"]):
            del os.environ["COLUMNS"]  # the true width, and not one that nothing fits
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="rackrate")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of the output: it has no room
            discard(sys.stdout)
            complain(str(explain(error)))
            sys.exit(EXIT_FAILED)

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
    def refusing(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, TyperException):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename is None:
                raise  # of the output, which takes no document either
            refusal = explain(error)
            output = Output(bool(kwargs.get("as_json")))
            output.complain(str(refusal))
            junit: Any = kwargs.get("junit")
            if junit is not None and refusal.exit_code == EXIT_UNKNOWN:
                # Tell CI systems, too, that nobody knows how the run ended.
                run = str(kwargs.get("name") or kwargs.get("run_id") or "run")
                xml = junit_xml(run, None, (), RunFailure("UnknownEnd", str(refusal)))
                with suppress(OSError):
                    write(junit, xml)
            output.document({"error": str(refusal), **refusal.details})
            raise typer.Exit(refusal.exit_code) from error
        except KeyboardInterrupt:
            # Only outside of what a watch follows: what was started there is stopped by the watch.
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return refusing
