"""What earlier versions wrote is read, and the types import little and are imported late."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rackrate_cli.reading.kinds import CAMPAIGN, RUN

from rackrate.plan.model import Plan
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.comparison import Comparison
from rackrate_contract.executions import CampaignRecord, RunRecord
from rackrate_contract.results import Results
from tests import ROOT
from tests.unit.report import samples

#: What the builders of commit 92769ef wrote.
DATA = Path(__file__).with_name("data")
EARLIER = {
    "results.json": Results,
    "comparison.json": Comparison,
    "draws.campaign.json": CampaignResults,
    "sweep.campaign.json": CampaignResults,
}
CONTRACT = ROOT / "functions" / "rackrate_contract"


def without_added(now, before):
    """What is now, without the fields that were added since."""
    if isinstance(before, dict):
        return {key: without_added(now[key], value) for key, value in before.items()}
    if isinstance(before, list):
        return [without_added(*pair) for pair in zip(now, before, strict=True)]
    return now


@pytest.mark.parametrize("name", EARLIER)
def test_what_an_earlier_version_wrote_is_read_without_a_loss(name):
    text = (DATA / name).read_bytes()
    written = json.loads(text)
    assert without_added(EARLIER[name].read(text).to_json(), written) == written


@pytest.mark.parametrize("name", ["results.json", "comparison.json"])
def test_the_plan_of_an_earlier_run_is_still_a_plan(name):
    plan = EARLIER[name].read((DATA / name).read_bytes()).plan
    assert Plan.from_json(plan).to_json().items() >= plan.items()


def test_readers_ignore_what_they_do_not_know_and_fill_in_what_can_be_empty():
    document = samples.results().to_json()
    expected = Results.from_json(document).model_copy(update={"counters": None, "marks": ()})
    document["surprise"] = {"a": 1}
    document["verdicts"][0] |= {"surprise": 1}
    document["arms"][0] |= {"surprise": 1}
    del document["counters"], document["marks"]
    assert Results.read(json.dumps(document)) == expected


def test_writers_may_not_leave_out_or_add_a_field():
    document = samples.results().to_json()
    for changed in (document | {"surprise": 1}, document | {"marks": None}):
        with pytest.raises(ValueError, match=r"surprise|marks"):
            Results.from_json(changed)
    del document["marks"]
    with pytest.raises(ValueError, match="marks"):
        Results.from_json(document)


@pytest.mark.parametrize(
    ("read", "written", "derived"),
    [
        (RUN.record, RunRecord, {"stopped_after": "stopped", "missing_nodes": "missing_since"}),
        (
            CAMPAIGN.record,
            CampaignRecord,
            {"stopped_after": "stopped", "must_put_back": "changed"},
        ),
    ],
)
def test_the_command_reads_of_a_record_what_the_stack_writes(read, written, derived):
    names = {derived.get(field.name, field.name) for field in dataclasses.fields(read)}
    assert names <= written.model_fields.keys()


@pytest.mark.parametrize("path", sorted(CONTRACT.glob("*.py")), ids=lambda path: path.stem)
def test_the_contract_imports_pydantic_students_t_and_the_text_only(path):
    imported = set()
    # The command runs on Python 3.12.
    for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 12))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    tops = {name.partition(".")[0] for name in imported}
    allowed = {"pydantic", "pydantic_core", "rackrate_contract", "rackrate_text"}
    if path.stem == "student":
        allowed |= {"mpmath"}
    assert tops <= allowed | sys.stdlib_module_names


def test_the_command_starts_without_the_types_whose_import_takes_long():
    program = "import sys, rackrate_cli.main; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
