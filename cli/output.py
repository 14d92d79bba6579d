"""Where a command's words go: text for people, or one JSON document for programs.

Standard output carries the answer and nothing else; progress and complaints go to standard error.
With `--json` the answer is exactly one JSON document, also when the command is refused: then it is
`{"error": "<the sentence>"}`. A command therefore calls `document` once, last, and after it ends
with `typer.Exit` alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

StackOption = Annotated[
    str, typer.Option("--stack", metavar="NAME", help="Name of the deployed stack.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]


class Output:
    """The two streams of one command. `is_json` says whether a program reads the answer."""

    def __init__(self, is_json: bool = False) -> None:
        self.is_json = is_json
        self.console = Console(quiet=is_json)
        """Standard output for people; it swallows everything with `--json`."""
        self.errors = Console(stderr=True)
        """Standard error, for progress."""

    def say(self, text: str, style: str = "") -> None:
        """Plain words for people: nothing in them is markup."""
        self.console.print(Text(text, style=style))

    def print(self, renderable: RenderableType) -> None:
        """A table or another thing of rich, for people."""
        self.console.print(renderable)

    def line(self, text: str) -> None:
        """A line for people that is never wrapped, such as a path to copy."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Plain words on standard error: how it goes, not what came of it."""
        self.errors.print(Text(text))

    def document(self, value: Mapping[str, Any]) -> None:
        """The answer for programs; nothing happens without `--json`."""
        if self.is_json:
            self.json(value)

    def json(self, value: Mapping[str, Any]) -> None:
        """JSON with and without `--json`, where a command prints nothing else."""
        # What JSON has no word for must fail here and not at its reader.
        print(json.dumps(value, indent=2, allow_nan=False))

    def complain(self, sentence: str) -> None:
        """One line on standard error, with the name of who says it."""
        complain(sentence)


def complain(sentence: str) -> None:
    """One line on standard error, with the name of who says it."""
    print(f"rackrate: {sentence}", file=sys.stderr)
