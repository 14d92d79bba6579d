"""What follows from the tools' modules: docs/tools.md, and image/programs.txt.

image/programs.txt lists what pods start, each with the Debian package that has it; the stack's
image and the lab's are made of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rackrate import tools
from rackrate.measure import counters
from scripts.markdown import ROOT, table, with_part
from tests.unit.tools.captures import Capture, captures, outcome

REFERENCE = ROOT / "docs" / "tools.md"
PROGRAMS = ROOT / "image" / "programs.txt"


def documents() -> dict[Path, str]:
    """The two files, as they should be."""
    tried = tuple(captures())
    page = REFERENCE.read_text()
    for name, part in (
        ("table of tools", _table(tried)),
        ("tools", "\n\n".join(map(_section, tools.names()))),
        ("captures", "\n\n".join(_captures(tried))),
    ):
        page = with_part(page, name, part)
    return {REFERENCE: page, PROGRAMS: _programs()}


def _programs() -> str:
    found = dict(counters.PROGRAMS)
    for name in tools.names():
        found |= tools.test_class(name).programs
    return "".join(f"{program} {package}\n" for program, package in sorted(found.items()))


def _table(tried: tuple[Capture, ...]) -> str:
    rows = []
    for tool in tools.names():
        first, _, _ = _text(tool).partition("\n\n")
        # Options may ask for another server, and every one that is tried has its capture.
        tests = [*tools.examples(tool), *(each.test for each in tried if each.tool == tool)]
        ports = {port for test in tests if test.server is not None for port in test.server.ports}
        rows.append(
            (
                f"[`{tool}`](#{tool})",
                first,
                ", ".join(f"`{metric.name}`" for metric in tools.metrics(tool)),
                ", ".join(f"`{program}`" for program in tools.test_class(tool).programs),
                ", ".join(f"{port.number} {port.protocol}" for port in sorted(ports)) or "none",
            )
        )
    titles = ("tool", "what it is", "metrics, first the primary one", "programs", "server's ports")
    return table(titles, rows)


def _text(tool: str) -> str:
    return (tools.module(tool).__doc__ or "").strip()


def _section(tool: str) -> str:
    """A tool's module in its own words, its metrics, command lines and details."""
    test = tools.examples(tool)[0]
    metrics = (
        (f"`{metric.name}`", metric.unit, metric.better, metric.statistic)
        for metric in tools.metrics(tool)
    )
    lines = [f"client: {shlex.join(test.argv('ADDRESS'))}"]
    if test.server is not None:
        lines.append(f"server: {shlex.join(test.server.argv)}")
    commands = "\n".join(lines)
    parts = [
        f"## {tool}",
        _text(tool),
        table(("metric", "unit", "better", "a trial's value"), metrics),
        f'```text title="By default"\n{commands}\n```',
    ]
    if details := tools.test_class(tool).details:
        rows = ((f"`{detail.name}`", detail.text) for detail in details)
        parts.append(table(("detail", "what it is"), rows))
    return "\n\n".join(parts)


def _captures(tried: tuple[Capture, ...]) -> Iterator[str]:
    """What the parsers make of all captures: a table for each tool."""
    for tool in tools.names():
        found = [capture for capture in tried if capture.tool == tool]
        versions = list(dict.fromkeys(capture.version for capture in found))
        cells = {(each.situation, each.version): outcome(each) for each in found}
        rows = (
            (situation, *(cells.get((situation, version), "") for version in versions))
            for situation in dict.fromkeys(capture.situation for capture in found)
        )
        yield f"### Captures of {tool}"
        yield table(("situation", *versions), rows)
