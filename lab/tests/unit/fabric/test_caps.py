"""The nodes whose caps change. tests/lab/test_network.py measures the effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import daemon
from lab.errors import LabError
from lab.fabric import caps
from lab.fabric.caps import Link, change, links
from lab.fabric.luck import Luck
from lab.fabric.shaping import Limits

PLACE = Luck(1).rack("a")
LIMITS = Limits.of_instance(10e9, 0.1)
GROUPS = {"a": "one", "b": "one", "c": "two"}
Ran = list[tuple[tuple[str, ...], tuple[str, ...]]]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """A lab of three nodes. Records each call of tc: its place and its lines."""
    ran: Ran = []
    monkeypatch.setattr(daemon, "state_directory", lambda: tmp_path)
    monkeypatch.setattr(daemon, "enter", lambda node: ["enter", node])
    monkeypatch.setattr(
        caps, "shape", lambda lines, enter: ran.append((tuple(enter), tuple(lines)))
    )
    for number, (node, group) in enumerate(GROUPS.items()):
        link = Link(
            node, f"i-{node}", f"node{number}", LIMITS, False, {"group": group}, "rack0", PLACE
        )
        link.write(tmp_path / "nodes" / node)
        link.remember(tmp_path)
    return ran


def test_links_are_read_as_they_were_written(ran: Ran) -> None:
    assert [(link.node, link.limits, link.labels, link.place) for link in links()] == [
        (node, LIMITS, {"group": group}, PLACE) for node, group in GROUPS.items()
    ]


def test_both_ways_of_the_nodes_with_the_label_are_changed_and_of_no_other(ran: Ran) -> None:
    changed = change("group=one", 0.9)
    assert [link.node for link in changed] == ["a", "b"]
    assert all(link.limits == LIMITS.times(0.9) for link in changed)
    places = [where[:2] for where, _ in ran]
    assert places == [("enter", "a"), ("enter", "region"), ("enter", "b"), ("enter", "region")]
    (ingress,) = ran[1][1]
    assert "dev node0 root tbf rate 900000000bit" in ingress


def test_a_factor_is_of_the_first_caps_and_not_of_the_last(ran: Ran) -> None:
    change("group=one", 0.5)
    assert change("group=one", 1)[0].limits == LIMITS


@pytest.mark.parametrize("selector", ["group=three", "arm=one", "group", ""])
def test_a_label_that_no_node_has_is_named(ran: Ran, selector: str) -> None:
    with pytest.raises(LabError, match="No node has the label"):
        change(selector, 0.9)
    assert ran == []


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.1, float("nan")])
def test_a_factor_that_makes_no_sense_is_refused(ran: Ran, factor: float) -> None:
    with pytest.raises(LabError, match="give a number from"):
        change("group=one", factor)
    assert ran == []


def test_places_of_nodes_that_ended_are_remembered(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "nodes" / "a" / caps.FILE).unlink()
    assert [link.node for link in links()] == ["b", "c"]
    assert [link.instance_id for link in caps.all_places()] == ["i-a", "i-b", "i-c"]
    assert caps.all_places()[0].place == PLACE
