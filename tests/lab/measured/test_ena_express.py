"""ENA Express, of which only a measurement tells that it does something."""

from __future__ import annotations

import json

import pytest

from tests.lab.running import Lab
from tests.lab.toggles import Toggles, median, run_of, toggles_of


@pytest.fixture(scope="module")
def toggles(bare_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Toggles:
    return toggles_of(bare_lab, tmp_path_factory.mktemp("taskcat"))


def test_ena_express_lifts_the_limit_of_a_single_flow(bare_lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("ena-express") as made:
        results = run_of(bare_lab, made)
        scale = float(bare_lab.status["network_scale"])
        # 10 Gb/s without ENA Express, which the treatment alone has; the baseline's limit is 5.
        assert median(results, "tcp-1", "treatment") > 11e9 * scale
        assert median(results, "tcp-1", "baseline") < 5.5e9 * scale
        assert "ENA Express" in json.dumps(results["verdicts"])
