"""Losses are reported while a run goes on, each once, with their causes and nodes."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from rackrate_cli.following.losses import Losses
from rackrate_cli.reading.runs import Run
from rackrate_cli.reading.stack import Stack

from .conftest import DeployedStack


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
