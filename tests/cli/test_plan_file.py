"""The command refuses an unreadable plan with one sentence before it starts anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.plan import MAXIMUM_BYTES, read_plan

from .conftest import DeployedStack, Rackrate


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The path of a plan's file, which a test writes."""
    return tmp_path / "plan.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "blocks": 6\n  "seed": 1}', "line 3, column 3"),
        ("", "line 1, column 1"),
        ('{"blocks": NaN}', "NaN is not JSON"),
        ('{"blocks": 6, "blocks": 7}', '"blocks" is used twice'),
        ('["tcp-1"]', "not a list"),
        ("6", "not a number"),
        ("null", "not null"),
        ("[" * 100_000, "nested too deeply"),
        ('{"seed": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"%s": 1, "%s": 2}' % (("k" * 100_000,) * 2), "is used twice"),
    ],
)
def test_a_plan_that_is_not_a_json_object_is_refused_with_its_place(
    text: str, message: str, plan: Path
) -> None:
    plan.write_text(text)
    with pytest.raises(Refusal) as refusal:
        read_plan(plan)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 10_000


def test_nothing_is_started_with_a_plan_that_is_not_json(
    plan: Path, stack: DeployedStack, rackrate: Rackrate
) -> None:
    plan.write_text("{blocks: 6}")
    assert "line 1, column 2" in rackrate.refused("run", "--plan", plan)
    assert stack.executions() == []


def test_text_that_is_not_utf8_is_refused_with_its_line(plan: Path) -> None:
    plan.write_bytes(b'{\n"note": "\xff"}')
    with pytest.raises(Refusal, match="line 2"):
        read_plan(plan)


def test_a_missing_plan_file_is_named(plan: Path, rackrate: Rackrate) -> None:
    assert "plan.json" in rackrate.refused("run", "--plan", plan)


def test_a_directory_is_not_a_plan(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        read_plan(tmp_path)


def test_a_plan_may_be_as_large_as_step_functions_takes_and_no_larger(plan: Path) -> None:
    around = len('{"note":""}')
    plan.write_text(json.dumps({"note": "x" * (MAXIMUM_BYTES - around)}, separators=(",", ":")))
    assert len(read_plan(plan)) == MAXIMUM_BYTES
    plan.write_text(json.dumps({"note": "x" * (MAXIMUM_BYTES - around + 1)}, separators=(",", ":")))
    with pytest.raises(Refusal, match="256 KiB"):
        read_plan(plan)


def test_a_plan_is_measured_as_it_is_sent(plan: Path) -> None:
    plan.write_text(json.dumps({"note": "é" * 100_000}, ensure_ascii=False))
    with pytest.raises(Refusal, match="256 KiB"):
        read_plan(plan)


def test_the_seed_option_replaces_the_plans_own(plan: Path) -> None:
    plan.write_text('\ufeff{"blocks": 3, "seed": 1}', encoding="utf-8")
    assert json.loads(read_plan(plan, seed=7)) == {"blocks": 3, "seed": 7}
    assert json.loads(read_plan(plan)) == {"blocks": 3, "seed": 1}


def test_without_a_plan_every_choice_is_the_stacks() -> None:
    assert read_plan(None) == "{}"
