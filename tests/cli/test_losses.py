"""Losses are reported while a run goes on, each once, with their causes and nodes."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from rackrate_cli.following.losses import Losses
from rackrate_cli.reading.runs import Run
from rackrate_cli.reading.stack import Stack

from .conftest import DeployedStack, arm, estimates


def run(failed: int, run_id: str = "r1") -> Run:
    return Run.from_item({"pk": f"run#{run_id}", "trials_failed": failed})


@pytest.fixture
def losses(stack: DeployedStack) -> Losses:
    return Losses(Stack.find(stack.name))


def test_equal_causes_share_a_line_and_are_reported_once(
    stack: DeployedStack, losses: Losses
) -> None:
    for block in (1, 2):
        stack.lose("r1", block, "the server is busy")
    stack.lose("r1", 3, "node node-b is gone")
    assert losses.since_last_look(run(3)) == [
        "Lost 2 trials (treatment, node-a → node-b): the server is busy",
        "Lost 1 trial (treatment, node-a → node-b): node node-b is gone",
    ]
    assert losses.since_last_look(run(3)) == []
    stack.lose("r1", 4, "node node-b is gone")
    (line,) = losses.since_last_look(run(4))
    assert line.startswith("Lost 1 trial ")


def with_nodes(missing: tuple[str, ...], **fields: object) -> Run:
    item = {"pk": "run#r1", "waited_seconds": 9, "phase": "block 2 of 6", **fields}
    return Run.from_item({**item, "missing_since": dict.fromkeys(missing, "2026-11-21T07:05:12Z")})


def test_the_place_has_the_arms_title(stack: DeployedStack, losses: Losses) -> None:
    plan = {
        "estimates": estimates(),
        "placeholder_nodes": False,
        "arms": [
            arm(*each, node_groups=[], selector="pool=any", network_scale=None)
            for each in (("treatment", "cluster"), ("baseline", "none"))
        ],
    }
    stack.put("r1", "plan.json", json.dumps(plan).encode())
    stack.lose("r1", 1, "the server is busy")
    assert losses.since_last_look(run(1)) == [
        "Lost 1 trial (cluster group, node-a → node-b): the server is busy"
    ]


def test_a_lost_node_is_reported_once_and_again_when_it_is_back(losses: Losses) -> None:
    assert losses.since_last_look(with_nodes(())) == []
    assert losses.since_last_look(with_nodes(("node-b",))) == [
        "Node lost: node-b; no server there is ready"
    ]
    assert losses.since_last_look(with_nodes(("node-b",))) == []
    waiting = with_nodes(("node-b", "node-c"), phase="waiting for servers on node-b and node-c")
    assert losses.since_last_look(waiting) == ["Node lost: node-c; no server there is ready"]
    assert losses.since_last_look(with_nodes(())) == [
        "Node back, or another in its place: node-b and node-c"
    ]


def test_a_node_whose_server_is_still_to_start_is_not_lost(losses: Losses) -> None:
    for starting in ({"waited_seconds": None}, {"phase": "waiting for servers"}):
        assert losses.since_last_look(with_nodes(("node-a", "node-b"), **starting)) == []


def test_many_lost_nodes_take_one_line(losses: Losses) -> None:
    (line,) = losses.since_last_look(with_nodes(tuple(f"node-{n:03}" for n in range(500))))
    assert "node-000, node-001, node-002 and 497 more" in line


def test_the_next_run_of_a_campaign_has_losses_of_its_own(
    stack: DeployedStack, losses: Losses
) -> None:
    for run_id in ("c-01", "c-02"):
        stack.lose(run_id, 1, "the server is busy")
        assert len(losses.since_last_look(run(1, run_id))) == 1


def test_trials_that_may_not_be_read_are_still_counted(
    losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Stack, run_id: str) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "Query")

    monkeypatch.setattr(Stack, "failed_trials", denied)
    assert losses.since_last_look(run(2)) == ["Lost 2 trials"]
