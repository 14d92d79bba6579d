"""docs/campaigns: every file is the input of a campaign, and its plan can run at every step."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rackrate.changes import CHANGES, SWEEPS
from rackrate.plan.campaign import check_plans, read_campaign
from rackrate.plan.faults import Faults
from rackrate.settings import LOAD, StackArm
from rackrate_contract.selectors import Selector
from tests import ROOT
from tests.unit.samples import HOST_SETTINGS, LABEL

LOAD_NODES = StackArm(LOAD, "none", False, ("ng-3",), Selector.parse(f"{LABEL}=ng-3"))
SETTINGS = replace(HOST_SETTINGS, load=LOAD_NODES, load_node_count=1)
#: Of E4's last tiers, with a load node for four nodes.
ONE_ARM = replace(SETTINGS, arms=SETTINGS.arms[:1], node_count=4)
FOLDER = ROOT / "docs" / "campaigns"
FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_campaign_that_is_documented_is_valid_at_every_step(path):
    faults = Faults()
    campaign = read_campaign(
        json.loads(path.read_text()),
        campaign_id="documented",
        sweeps=SWEEPS,
        owns_nodes=True,
        before=None,
        faults=faults,
        arms=SETTINGS.arms,
    )
    change = CHANGES["draws" if campaign.sweep is None else campaign.sweep.change]
    values = campaign.sweep.values if campaign.sweep else (None,)
    # More nodes in a round need a stack with one arm.
    is_large = max(change.node_count(value, 2) for value in values) > 600
    check_plans(
        campaign.plan,
        [change.node_count(value, 2) for value in values],
        settings=ONE_ARM if is_large else SETTINGS,
        campaign_id="documented",
        faults=faults,
    )
    assert faults == []
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()


def test_the_campaigns_for_the_lab_measure_the_same_in_less_time():
    for name in ("e3", "e4", "e4-network"):
        full, short = (
            json.loads((FOLDER / f"{each}.json").read_text()) for each in (name, f"{name}-lab")
        )
        assert full["sweep"].keys() == short["sweep"].keys()
        assert full["runs_per_step"] == short["runs_per_step"]
        shared = {"arms", "baseline", "pairing", "load"} & full["plan"].keys()
        assert {key: full["plan"][key] for key in shared} == {
            key: short["plan"].get(key) for key in shared
        }
        assert short["plan"]["blocks"] < full["plan"]["blocks"]
