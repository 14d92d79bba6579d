"""The report answers the assumptions of docs/aws-checks.md, and a person chooses what is tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from rackrate_cli.errors import Refusal

from acceptance import parts
from acceptance.__main__ import _chosen
from acceptance.archive import ASSUMPTIONS, report_of
from acceptance.script import REPOSITORY, Finding


def test_assumptions_that_the_script_settles_are_on_the_page() -> None:
    source = Path(parts.__file__).read_text("utf-8")
    named = set(re.findall(r'"(an?-[a-z-]+|the-[a-z-]+|access-[a-z-]+|lake-[a-z-]+)"', source))
    rows = set(re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\)", ASSUMPTIONS.read_text("utf-8"), re.M))
    assert len(named) > 10
    assert named <= rows


def test_an_assumption_holds_or_does_not_or_is_left() -> None:
    report = report_of(
        [
            Finding("run", "placed", True, settles=("the-nodes-places",)),
            Finding("stop", "told", False, "no event|in time", ("the-event-of-a-runs-end",)),
        ]
    )
    assert "2 checks, 1 failed." in report
    assert "| EC2 places the nodes as asked | holds |" in report
    assert "| EventBridge delivers the end of a run | **does not hold** |" in report
    assert "| a new role works after 22 seconds | not settled |" in report
    assert "| stop | told | **failed** | no event/in time |" in report


def test_parts_that_are_chosen_are_deployed_and_deleted() -> None:
    assert _chosen(["draws"], short=True) == ["deploy", "draws", "delete"]
    assert _chosen([], short=False) == list(parts.PARTS)
    assert "sweep_ami_release" not in _chosen([], short=True)
    with pytest.raises(Refusal, match="the parts are refusal, deploy"):
        _chosen(["sweeps"], short=False)


def test_each_class_of_update_is_tried_by_a_change_that_needs_no_other() -> None:
    documented = yaml.safe_load((REPOSITORY / "docs" / "updates.yaml").read_text("utf-8"))
    outcomes = {e["outcome"] for entries in documented.values() for e in entries}
    assert parts.UPDATES.keys() == outcomes
    for outcome, parameter in parts.UPDATES.items():
        entry = next(e for e in documented[parameter] if e["outcome"] == outcome)
        assert not entry.keys() & {"with", "from", "also", "late", "cluster"}
