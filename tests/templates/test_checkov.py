"""checkov finds nothing in the templates. Each skipped check has a reason and is still needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests import ROOT
from tests.templates.cloudformation import TEMPLATES, load
from tests.waiting import HUNG_SECONDS

pytestmark = pytest.mark.rest

CHECKOV = ROOT / ".venv-checkov" / "bin" / "checkov"
SETTINGS = ROOT / ".checkov.yaml"
SKIP = re.compile(r"checkov:skip=")
WORDS_OF_A_REASON = 5


class Finding(NamedTuple):
    file: str
    resource: str
    check: str


@dataclass(frozen=True)
class Report:
    """checkov's results for all templates."""

    failed: frozenset[Finding]
    skipped: dict[Finding, str]
    resources: int
    parsing_errors: tuple[str, ...]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """checkov's results with and without the skipped checks."""
    copy = tmp_path_factory.mktemp("unskipped")
    for template in TEMPLATES:
        target = copy / template.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        target.write_text(SKIP.sub("skipped: ", template.read_text("utf-8")), "utf-8")
    settings = yaml.safe_load(SETTINGS.read_text("utf-8"))
    del settings["skip-check"]
    (copy / SETTINGS.name).write_text(yaml.safe_dump(settings), "utf-8")
    home = tmp_path_factory.mktemp("home")
    with start(ROOT, home) as as_it_is, start(copy, home) as unskipped:
        return read(as_it_is), read(unskipped)


@pytest.fixture(scope="module")
def report(reports: tuple[Report, Report]) -> Report:
    return reports[0]


@pytest.fixture(scope="module")
def without_skips(reports: tuple[Report, Report]) -> Report:
    return reports[1]


def test_checkov_reads_every_resource_of_every_template(report: Report) -> None:
    assert report.parsing_errors == ()
    assert report.resources == sum(len(load(path)["Resources"]) for path in TEMPLATES)


def test_checkov_finds_nothing(report: Report) -> None:
    assert sorted(report.failed) == []


def test_every_skip_in_a_template_says_why(report: Report) -> None:
    unexplained = [
        check for check, reason in report.skipped.items() if len(reason.split()) < WORDS_OF_A_REASON
    ]
    assert unexplained == []


def test_every_skip_of_the_whole_stack_says_why() -> None:
    reasons = reasons_of_settings()
    assert set(reasons) == set(yaml.safe_load(SETTINGS.read_text("utf-8"))["skip-check"])
    unexplained = {c for c, why in reasons.items() if len(why.split()) < WORDS_OF_A_REASON}
    assert unexplained == set()


def test_no_skip_is_for_a_check_that_would_pass(report: Report, without_skips: Report) -> None:
    everywhere = set(reasons_of_settings())
    assert everywhere <= {check.check for check in without_skips.failed}
    needed = {check for check in without_skips.failed if check.check not in everywhere}
    assert set(report.skipped) == needed


def test_every_skip_in_a_template_stands_where_checkov_sees_it(report: Report) -> None:
    written = Counter(
        {
            f"/{path.relative_to(ROOT)}": len(SKIP.findall(path.read_text("utf-8")))
            for path in TEMPLATES
        }
    )
    assert +written == Counter(check.file for check in report.skipped)


def start(directory: Path, home: Path) -> subprocess.Popen[bytes]:
    """Start checkov on the templates of a directory, offline and with only our settings."""
    assert CHECKOV.is_file(), "checkov is not installed: run scripts/setup"
    # A proxy at which nobody listens refuses all requests to the network.
    nobody = "http://127.0.0.1:9"
    return subprocess.Popen(
        [CHECKOV, "--file", *(str(path.relative_to(ROOT)) for path in TEMPLATES), "-o", "json"],
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HTTP_PROXY": nobody,
            "HTTPS_PROXY": nobody,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read(checkov: subprocess.Popen[bytes]) -> Report:
    answer, complaints = checkov.communicate(timeout=HUNG_SECONDS)
    # 1 means that checks failed. The report says which.
    assert checkov.returncode in (0, 1), complaints.decode()
    report = json.loads(answer)
    results: dict[str, Any] = report["results"]

    def finding(check: dict[str, Any]) -> Finding:
        return Finding(check["file_path"], check["resource"], check["check_id"])

    return Report(
        failed=frozenset(map(finding, results["failed_checks"])),
        skipped={
            finding(check): str(check["check_result"]["suppress_comment"])
            for check in results["skipped_checks"]
        },
        resources=report["summary"]["resource_count"],
        parsing_errors=tuple(results["parsing_errors"]),
    )


def reasons_of_settings() -> dict[str, str]:
    """The comments above the checks that are skipped in all templates."""
    reasons: dict[str, str] = {}
    comment: list[str] = []
    for line in map(str.strip, SETTINGS.read_text("utf-8").splitlines()):
        if line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
            continue
        if line.startswith("- CKV"):
            reasons[line.removeprefix("- ")] = " ".join(comment)
        comment = []
    return reasons
