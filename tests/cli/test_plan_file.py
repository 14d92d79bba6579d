"""The command refuses an unreadable plan with one sentence before it starts anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.plan import MAXIMUM_BYTES, read_plan

from .conftest import DeployedStack, Rackrate


@pytest.mark.parametrize(
    ("text", "says"),
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
    text: str, says: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    with pytest.raises(Refusal) as refusal:
        read_plan(plan)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 10_000


def test_nothing_is_started_with_a_plan_that_is_not_json(
    tmp_path: Path, stack: DeployedStack, rackrate: Rackrate
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("{blocks: 6}")
    result = rackrate("run", "--stack", stack.name, "--plan", plan, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "line 1, column 2" in result.stderr
    assert result.stderr.count("\n") == 1
    assert stack.executions() == []


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(b'{\n"note": "\xff"}')
    with pytest.raises(Refusal, match="line 2"):
        read_plan(plan)


def test_a_missing_plan_file_is_named(tmp_path: Path, rackrate: Rackrate) -> None:
    result = rackrate("run", "--plan", tmp_path / "absent.json")
    assert result.exit_code == 2
    assert "absent.json" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_directory_is_not_a_plan(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        read_plan(tmp_path)


def test_a_plan_may_be_as_large_as_step_functions_takes_and_no_larger(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    around = len('{"note":""}')
    plan.write_text(json.dumps({"note": "x" * (MAXIMUM_BYTES - around)}, separators=(",", ":")))
    assert len(read_plan(plan)) == MAXIMUM_BYTES
    plan.write_text(json.dumps({"note": "x" * (MAXIMUM_BYTES - around + 1)}, separators=(",", ":")))
    with pytest.raises(Refusal, match="256 KiB"):
        read_plan(plan)


def test_a_plan_is_measured_as_it_is_sent(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"note": "é" * 100_000}, ensure_ascii=False))
    with pytest.raises(Refusal, match="256 KiB"):
        read_plan(plan)


def test_the_seed_option_replaces_the_plans_own(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('\ufeff{"blocks": 3, "seed": 1}', encoding="utf-8")
    assert json.loads(read_plan(plan, seed=7)) == {"blocks": 3, "seed": 7}
    assert json.loads(read_plan(plan)) == {"blocks": 3, "seed": 1}


def test_without_a_plan_every_choice_is_the_stacks() -> None:
    assert read_plan(None) == "{}"
