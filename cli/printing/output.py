"""The output of a command: text for people, or one JSON document for programs.

Standard output carries the answer and nothing else. Progress and errors go to standard error.
With `--json` the answer is exactly one JSON document. After a refusal it is
`{"error": "<the sentence>"}` with the refusal's details. A command must therefore call `document`
once, as its last output. After that it may only raise `typer.Exit`.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rackrate_text.printable import printable


def _before_or_after(context: typer.Context, option: typer.CallbackParam, value: str) -> str:
    """The stack that is named after the command, or else the one before it."""
    source = context.get_parameter_source(str(option.name))
    if context.obj is None or (source is not None and source.name != "DEFAULT"):
        context.obj = value  # which the contexts of commands inherit
    return str(context.obj)


StackOption = Annotated[
    str,
    typer.Option(
        "--stack", metavar="NAME", help="Name of the deployed stack.", callback=_before_or_after
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]


#: How figures are written where a stream's encoding lacks their characters.
_ASCII = {"−": "-", "–": "-", "→": "->", "µ": "u", "…": "...", "⚠": "!"}


def _in_ascii(error: Any) -> tuple[str, int]:
    """A handler of codecs for what cannot be encoded."""
    text = error.object[error.start : error.end]
    return "".join(_ASCII.get(each, "?") for each in text), error.end


codecs.register_error("rackrate", _in_ascii)


def discard(stream: IO[str]) -> None:
    """Let a stream go nowhere whose reader has closed it, as `head` does; the command goes on."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class PlainConsole(Console):
    """A console whose texts cannot command the terminal. What tools print reaches it as an error.

    Only rich's own styles and its moves of the cursor become escape sequences.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something to print, each with plain text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def on_broken_pipe(self) -> None:
        """Go on without this stream: the files, and the exit code, are still wanted."""
        discard(self.file)


class Output:
    """The two streams of one command.

    `is_json` says whether a program reads the answer, `is_verbose` whether a person wants details.
    """

    def __init__(self, is_json: bool = False, *, is_verbose: bool = False) -> None:
        self.is_json = is_json
        self.is_verbose = is_verbose
        self.console = PlainConsole(quiet=is_json)
        """Standard output for people. It prints nothing with `--json`."""
        self.errors = PlainConsole(stderr=True)
        """Standard error, for progress."""

    def say(self, text: str, style: str = "") -> None:
        """Print plain text for people, without interpreting markup."""
        self.console.print(Text(text, style=style))

    def print(self, renderable: RenderableType) -> None:
        """Print a table or another renderable of rich, for people."""
        self.console.print(renderable)

    def line(self, text: str) -> None:
        """Print a line for people without wrapping it, such as a path to copy."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print progress on standard error, as plain text."""
        self.errors.print(Text(text))

    def document(self, value: Mapping[str, Any]) -> None:
        """Print the answer for programs. Does nothing without `--json`."""
        if self.is_json:
            self.json(value)

    def json(self, value: Mapping[str, Any]) -> None:
        """Print JSON with and without `--json`, for a command that prints nothing else."""
        # A value that JSON cannot express must fail here and not in the program that reads it.
        try:
            print(json.dumps(value, indent=2, allow_nan=False), flush=True)
        except BrokenPipeError:
            discard(sys.stdout)

    def complain(self, sentence: str) -> None:
        """Print an error on standard error, as one line that begins with `rackrate:`."""
        complain(sentence)


def complain(sentence: str) -> None:
    """Print an error on standard error, as one line that begins with `rackrate:`."""
    print_error(f"rackrate: {sentence}")


def print_error(line: str) -> None:
    """Print a line on standard error as it is, but for what a terminal would obey."""
    with contextlib.suppress(OSError):  # nobody reads it
        print(printable(line), file=sys.stderr)
