"""The rules, loaded by cfn-lint itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lint.rules import ALL

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = Path(__file__).with_name("mistakes.yaml")
RULES = list(ALL.values())


def cfn_lint(*arguments: str, directory: Path = ROOT) -> list[dict[str, str]]:
    """The command's findings, as `{"id": ..., "message": ...}`."""
    command = [Path(sys.executable).with_name("cfn-lint"), "--format", "json", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return [
        {"id": match["Rule"]["Id"], "message": match["Message"]}
        for match in json.loads(done.stdout)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is_about_and_where_that_is_documented(rule):
    assert rule.id[:2] in ("E9", "W9")
    assert rule.shortdesc and rule.description.endswith(".")
    assert rule.source_url.startswith("https://")


def test_no_two_rules_have_the_same_id():
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_plain_cfn_lint_in_the_root_finds_every_mistake_that_ec2_and_eks_punish():
    found = {match["id"] for match in cfn_lint("--template", str(MISTAKES))}
    expected = {rule.id for rule in RULES if rule.id < "E91"}
    assert expected - found == set()
    assert "E0002" not in found, "a rule failed"


def test_cfn_lint_itself_lets_all_of_them_pass(tmp_path):
    """When a newer cfn-lint finds one of the mistakes, our rule for it can go."""
    assert cfn_lint("--template", str(MISTAKES), directory=tmp_path) == []


def test_the_readme_lists_the_rules_that_cfn_lint_loads():
    readme = (ROOT / "lint" / "README.md").read_text()
    rows = re.findall(r"^\| ([EW]9\d+) \| (.+) \|$", readme, re.MULTILINE)
    assert rows == sorted((rule.id, rule.shortdesc) for rule in RULES)
    listed = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--list-rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {id for id, _ in rows} <= set(re.findall(r"\b[EW]9\d{3}\b", listed.stdout))
