"""The rules work on our own templates: they find each deliberate violation."""

from __future__ import annotations

import re
import shutil

import pytest

from lint.rules import ALL
from tests import ROOT
from tests.lint.checking import check

DEFINITION = "statemachine/benchmark.asl.yaml"
ACCESS = "templates/access.yaml"
BENCHMARK = "templates/benchmark.yaml"
CLUSTER = "templates/cluster.yaml"
#: The rule, the template it reads, the file to break, the pattern to replace there, and by what.
BREAKAGES = [
    ("StarsHaveReasons", BENCHMARK, BENCHMARK, r"(?m)^\s*#.*\n", ""),
    ("TrustNamesTheAccount", BENCHMARK, BENCHMARK, r'StringEquals: { "aws:SourceAccount.*', ""),
    ("TrustNamesTheAccount", CLUSTER, CLUSTER, r'StringEquals: { "aws:SourceAccount.*', ""),
    ("OnlyLambdaMakesInterfaces", ACCESS, ACCESS, r"lambda:SourceFunctionArn:", "aws:x:"),
    ("DefinitionPermissions", BENCHMARK, BENCHMARK, r" +- !GetAtt ReportFunction.Arn\n", ""),
    ("DefinitionPermissions", BENCHMARK, DEFINITION, r"states:::s3:getObject", "states:::x:y"),
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of all files that the rules read."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("templates", "statemachine"):
        shutil.copytree(ROOT / folder, copy / folder)
    return copy


@pytest.mark.parametrize(
    ("rule", "template", "broken", "pattern", "replacement"),
    BREAKAGES,
    ids=[f"{ALL[rule].id}-{pattern}" for rule, _, _, pattern, _ in BREAKAGES],
)
def test_a_template_of_ours_that_is_broken_is_reported(
    checkout, rule, template, broken, pattern, replacement
):
    path = checkout / broken
    whole = path.read_text()
    text = re.sub(pattern, replacement, whole)
    assert text != whole, "there is nothing to break any more"
    assert check(checkout / template, ALL[rule], (checkout / template).read_text()) == []
    try:
        path.write_text(text)
        assert check(checkout / template, ALL[rule], (checkout / template).read_text()) != []
    finally:
        path.write_text(whole)
