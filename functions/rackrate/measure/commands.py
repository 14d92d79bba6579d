"""Several commands in one container: what each of them printed, and its exit code. Pure.

A container costs a node a few tenths of a second of a processor and reserves memory of its own. So
one shell runs the commands one after the other, and writes a line after each that names it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Writes the line after a command. In a function `$?` is first the code of the command before it.
_TOLD = r"""told() { printf '\n== %s %s\n' "$1" "$?"; }"""
_END = re.compile(r"\n== ([a-z0-9-]+) ([0-9]{1,3})\n", re.ASCII)


class Printed(NamedTuple):
    """What a command printed, on its output and its error output, and its exit code."""

    text: str
    code: int


def running(commands: Mapping[str, Sequence[str]]) -> list[str]:
    """The command line of a container that runs commands one after the other, whatever they answer.

    Args:
        commands: the commands by name: small letters, digits and hyphens.
    """
    lines = [
        _TOLD,
        *(f"{shlex.join(command)} 2>&1; told {name}" for name, command in commands.items()),
    ]
    return ["sh", "-c", "\n".join(lines)]


def printed_by_each(log: str) -> dict[str, Printed]:
    """What each command of `running` printed, by name; without those that had not ended."""
    outputs: dict[str, Printed] = {}
    at = 0
    for end in _END.finditer(log):
        outputs[end[1]] = Printed(log[at : end.start()], int(end[2]))
        at = end.end()
    return outputs
