"""The rules, loaded by cfn-lint itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lint.rules import ALL

ROOT = Path(__file__).resolve().parents[2]
RULES = list(ALL.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is_about_and_where_that_is_documented(rule):
    assert rule.id[:2] in ("E9", "W9")
    assert rule.shortdesc and rule.description.endswith(".")
    assert rule.source_url.startswith("https://")


def test_no_two_rules_have_the_same_id():
    assert len({rule.id for rule in RULES}) == len(RULES)


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
