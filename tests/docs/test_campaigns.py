"""docs/campaigns: the command takes each file, its plan is one that runs take, and it is listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from rackrate_cli.reading.campaign_input import Options, read_campaign

from tests.docs.blocks import ROOT
from tests.docs.test_blocks import check_plan, is_plan

FOLDER = ROOT / "docs" / "campaigns"
CAMPAIGNS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_a_campaign_of_the_documentation_can_be_started(path: Path) -> None:
    plan = read_campaign(Options(file=path)).get("plan", {})
    assert is_plan(plan)
    check_plan(plan)


def test_the_readme_lists_every_campaign() -> None:
    assert CAMPAIGNS
    text = (FOLDER / "README.md").read_text("utf-8")
    assert [path.name for path in CAMPAIGNS if f"| `{path.name}` |" not in text] == []
