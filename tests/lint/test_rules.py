"""The rules, loaded by cfn-lint itself."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lint import rules
from lint.rule import Rule

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = Path(__file__).with_name("mistakes.yaml")
RULES = [getattr(rules, name) for name in rules.__all__]


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


def test_every_rule_that_is_written_is_loaded():
    def below(rule):
        for each in rule.__subclasses__():
            yield each
            yield from below(each)

    for path in (ROOT / "lint" / "rules").glob("[a-z]*.py"):
        importlib.import_module(f"lint.rules.{path.stem}")
    assert {rule for rule in below(Rule) if rule.id} == set(RULES)


def test_plain_cfn_lint_in_the_root_finds_every_mistake_that_ec2_and_eks_punish():
    found = {match["id"] for match in cfn_lint("--template", str(MISTAKES))}
    expected = {rule.id for rule in RULES if rule.id < "E91"}
    assert expected - found == set()
    assert "E0002" not in found, "a rule failed"


def test_cfn_lint_itself_lets_all_of_them_pass(tmp_path):
    """When a newer cfn-lint finds one of the mistakes, our rule for it can go."""
    assert cfn_lint("--template", str(MISTAKES), directory=tmp_path) == []


def test_the_list_of_rules_in_the_readme_is_complete():
    readme = (ROOT / "lint" / "README.md").read_text()
    for rule in RULES:
        assert f"| {rule.id} | {rule.shortdesc} |" in readme
