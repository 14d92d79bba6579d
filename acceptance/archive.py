"""The archive of an acceptance: what AWS answered, what was found, and a report for people."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.redaction import ACCOUNT
from acceptance.script import REPOSITORY, Finding, Script

type Line = dict[str, Any]

ASSUMPTIONS = REPOSITORY / "docs" / "aws-checks.md"
_ROW = re.compile(r"^\| \[(?P<text>[^]]+)\]\(#(?P<anchor>[\w-]+)\)", re.M)


@dataclass(frozen=True)
class Archive:
    """What an archive holds: how it was made, the calls in order, and what the functions did."""

    header: dict[str, Any]
    calls: list[Line]
    functions: list[Line]

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read a file that `write` wrote. Raises OSError, ValueError or KeyError for any other."""
        try:
            with zipfile.ZipFile(path) as file:
                return cls(
                    json.loads(file.read("header.json")),
                    _lines(file.read("calls.jsonl")),
                    _lines(file.read("functions.jsonl")),
                )
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path} is no archive of an acceptance: {error}") from error

    def write(self, path: Path, **more: str) -> None:
        """Write the archive, with `more` texts by their names."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("header.json", json.dumps(self.header, indent=2))
            for name, lines in (("calls", self.calls), ("functions", self.functions)):
                file.writestr(f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
            for name, text in more.items():
                file.writestr(name, text)


def _lines(content: bytes) -> list[Line]:
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def written(script: Script, parts: Sequence[str], functions: list[Line]) -> Path:
    """Write an acceptance's report and archive into its directory. Returns the archive.

    Raises RuntimeError, and writes no archive, if the account's number is anywhere in it.
    """
    redaction = script.recorder.redaction
    header = redaction.value({**script.document(), "parts": list(parts)})
    report = redaction.text(report_of(script.findings))
    calls = _lines(script.calls.read_bytes()) if script.calls.exists() else []
    functions = redaction.value(functions)
    account = str(script.caller["Account"])
    if account != ACCOUNT and account in json.dumps([header, calls, functions, report]):
        raise RuntimeError(f"the number of the account is in the record: look at {script.calls}")
    (script.directory / "report.md").write_text(report, encoding="utf-8")
    path = script.directory / "acceptance.zip"
    Archive(header, calls, functions).write(path, **{"report.md": report})
    return path


def report_of(findings: Iterable[Finding]) -> str:
    """The report in Markdown: what failed, every check, and each assumption with its answer."""
    findings = list(findings)
    failed = [finding for finding in findings if not finding.passed]
    lines = ["# Acceptance", "", f"{len(findings)} checks, {len(failed)} failed.", ""]
    lines += ["| part | check | result | detail |", "|---|---|---|---|"]
    for finding in sorted(findings, key=lambda one: one.passed):
        result = "ok" if finding.passed else "**failed**"
        lines.append(f"| {finding.part} | {finding.check} | {result} | {_cell(finding.detail)} |")
    lines += [
        "",
        "## Assumptions of docs/aws-checks.md",
        "",
        "| assumption | answer |",
        "|---|---|",
    ]
    settled: Mapping[str, Finding] = {anchor: f for f in findings for anchor in f.settles}
    for row in _ROW.finditer(ASSUMPTIONS.read_text("utf-8")):
        status = "not settled"
        if row["anchor"] in settled:
            status = "holds" if settled[row["anchor"]].passed else "**does not hold**"
        lines.append(f"| {row['text']} | {status} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:300]
