"""Generate docs/tools.md, image/*.txt and the servers of templates/endpoint.yaml from the tools.

image/programs.txt lists the programs that pods start, each with its Debian package or Go module.
Both the stack's image and the lab's install them. image/large.txt has those of large workloads,
each with its Debian package or crate, and with the tests that need it. The lab installs them when
one of these tests is asked for.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from rackrate import registry
from rackrate.measure import counters
from rackrate.tools.base import Metric, TestBase
from rackrate_text.units import quantity
from rackrate_text.words import listed
from scripts.markdown import ROOT, table, with_part
from tests.unit.tools.captures import Capture, captures, outcome

REFERENCE = ROOT / "docs" / "tools.md"
PROGRAMS = ROOT / "image" / "programs.txt"
LARGE = ROOT / "image" / "large.txt"
ENDPOINT = ROOT / "templates" / "endpoint.yaml"
#: The prefix of `outcome` for a capture that is not a measurement.
REFUSED = "refused: "


def documents() -> dict[Path, str]:
    """The generated files by path."""
    tried = tuple(captures())
    page = REFERENCE.read_text()
    for name, part in (
        ("table of tools", _table(tried)),
        ("tools", "\n\n".join(map(_section, registry.names()))),
        ("captures", "\n\n".join(_captures(tried))),
    ):
        page = with_part(page, name, part)
    return {REFERENCE: page, PROGRAMS: _programs(), LARGE: _large(), ENDPOINT: _endpoint(tried)}


def _programs() -> str:
    programs = dict(counters.PROGRAMS)
    for name in registry.names():
        if not registry.test_class(name).large:
            programs |= registry.test_class(name).programs
    return "".join(f"{program} {package}\n" for program, package in sorted(programs.items()))


def _large() -> str:
    lines = []
    for name in registry.names():
        test = registry.test_class(name)
        if test.large:
            tests = ",".join(sorted({name, *test.catalogue}))
            lines += [f"{program} {source} {tests}\n" for program, source in test.programs.items()]
    return "".join(sorted(lines))


def _tests(tool: str, tried: tuple[Capture, ...]) -> list[TestBase]:
    """Tests of a tool with all tested options, which can change the server; the default first."""
    return [*registry.examples(tool), *(each.test for each in tried if each.tool == tool)]


def _endpoint(tried: tuple[Capture, ...]) -> str:
    """The template of the instance outside the cluster, whose user data starts all servers."""
    tests = (test for tool in registry.names() for test in _tests(tool, tried))
    servers = dict.fromkeys(test.server for test in tests if test.server is not None)
    begin, end = "# servers: begin\n", "# servers: end\n"
    before, _, rest = ENDPOINT.read_text().partition(begin)
    indent = " " * (len(before) - len(before.rstrip(" ")))
    lines = [f"server {shlex.join((each.name, *each.argv))}" for each in servers]
    wrapped = (f" \\\n{indent}  ".join(textwrap.wrap(each, 100)) for each in lines)
    script = "".join(f"{indent}{line}\n" for line in wrapped)
    return f"{before}{begin}{script}{indent}{end}{rest.partition(end)[2]}"


def _table(tried: tuple[Capture, ...]) -> str:
    rows = []
    for tool in registry.names():
        first, _, _ = _text(tool).partition("\n\n")
        tests = _tests(tool, tried)
        ports = {port for test in tests if test.server is not None for port in test.server.ports}
        rows.append(
            (
                f"[`{tool}`](#{tool})",
                first,
                ", ".join(f"`{metric.name}`" for metric in tests[0].metrics),
                ", ".join(f"`{program}`" for program in registry.test_class(tool).programs),
                ", ".join(f"{port.number} {port.protocol}" for port in sorted(ports)) or "none",
            )
        )
    titles = ("tool", "what it is", "metrics by default", "programs", "server's ports")
    refused = [f"`{tool}`" for tool in registry.names() if registry.test_class(tool).no_ipv6]
    note = f"Pods with IPv6 addresses can be measured with all but {listed(refused)}."
    return f"{table(titles, rows)}\n\n{note}"


def _text(tool: str) -> str:
    return (registry.module(tool).__doc__ or "").strip()


def _section(tool: str) -> str:
    """A tool's section: its module's docstring, metrics, command lines and details."""
    test = registry.examples(tool)[0]
    metrics = (
        (f"`{metric.name}`", metric.unit, metric.better, metric.statistic, _resolution(metric))
        for metric in registry.metrics(tool)
    )
    lines = [f"client: {shlex.join(test.argv('ADDRESS'))}"]
    if test.server is not None:
        lines.append(f"server: {shlex.join(test.server.argv)}")
    commands = "\n".join(lines)
    parts = [
        f"## {tool}",
        _text(tool),
        table(("metric", "unit", "better", "a trial's value", "resolution, by default"), metrics),
        f'```text title="By default"\n{commands}\n```',
    ]
    if details := registry.test_class(tool).all_details():
        rows = ((f"`{detail.name}`", detail.text) for detail in details)
        parts.append(table(("detail", "what it is"), rows))
    return "\n\n".join(parts)


def _resolution(metric: Metric) -> str:
    least = quantity(metric.step, metric.unit)
    return least if metric.digits is None else f"{least}, and {metric.digits} digits"


def _captures(tried: tuple[Capture, ...]) -> Iterator[str]:
    """The parsers' results for all captures: the values and the refusals of each tool."""
    for tool in registry.names():
        captures = [capture for capture in tried if capture.tool == tool]
        versions = list(dict.fromkeys(capture.version for capture in captures))
        outcomes: dict[str, dict[str, str]] = {}
        for each in captures:
            outcomes.setdefault(each.situation, {})[each.version] = outcome(each)
        values = (
            (situation, *(by_version.get(version, "").partition(":")[0] for version in versions))
            for situation, by_version in outcomes.items()
            if not all(map(_is_refusal, by_version.values()))
        )
        refusals = (
            (situation, ", ".join(those), reason)
            for situation, by_version in outcomes.items()
            for reason, those in _by_reason(by_version).items()
        )
        yield f"### Captures of {tool}"
        yield table(("situation", *versions), values)
        yield table(("situation", "versions", "refused because"), refusals)


def _is_refusal(text: str) -> bool:
    return text.startswith(REFUSED)


def _by_reason(outcomes: Mapping[str, str]) -> dict[str, list[str]]:
    """The versions by the reason for refusing their captures."""
    reasons: dict[str, list[str]] = {}
    for version, text in outcomes.items():
        if _is_refusal(text):
            reasons.setdefault(text.removeprefix(REFUSED), []).append(version)
    return reasons
