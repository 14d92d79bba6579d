"""`rackrate campaign hunt` against a deployed stack: its input, what it prints, what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.unit.report import campaigns

from .campaigns import CAMPAIGN
from .conftest import DeployedStack, Rackrate, machine

HUNT = campaigns.hunt()


@pytest.fixture
def measured(stack: DeployedStack, monkeypatch: pytest.MonkeyPatch) -> DeployedStack:
    """A stack whose hunt is over as soon as it is started, and left its files."""
    monkeypatch.setattr("rackrate_cli.commands.campaign.new_id", lambda kind: CAMPAIGN)
    stack.define_campaign(machine(("Done", stack.recording_campaign("succeeded", "done"))))
    document = json.dumps(HUNT.to_json()).replace(campaigns.CAMPAIGN_ID, CAMPAIGN)
    stack.put_campaign(CAMPAIGN, "campaign.json", document.encode())
    stack.put_campaign(CAMPAIGN, "report.html", b"page")
    return stack


def test_it_prints_each_draw_and_what_it_kept_within_80_columns(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    out = rackrate("campaign", "hunt", "rtt", "--at-most", "90 us", "--most", "5").stdout
    lines = [line for line in out.splitlines() if not line.startswith("Results: ")]
    assert max(map(len, lines)) <= 80
    text = " ".join(out.split())
    assert "3 87.0 µs 85.3 µs to 88.7 µs node-3a and node-3b" in text
    assert "rtt is 87.0 µs. Kept, with the label: node-3a." in text
    assert "Stopped after 3 of 5 steps." in text


def test_its_options_are_the_fields_of_the_input(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate("campaign", "hunt", "rtt", "--best-share", "0.2", "--most", "6", "--budget", "3")
    assert measured.input_of(measured.campaigns()[0]) == {
        "hunt": {"test": "rtt", "best_share": 0.2},
        "draws": 6,
        "budget_dollars": 3.0,
    }


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ([], "A hunt needs a test; name one, such as `rackrate campaign hunt rtt`."),
        (
            ["rtt", "--continue", "latest"],
            "takes over the input of the campaign; leave out test",
        ),
        (["rtt", "--most", "0"], "greater than or equal to 1"),
    ],
)
def test_a_hunt_that_cannot_be_is_refused(
    rackrate: Rackrate, arguments: list[str], refusal: str
) -> None:
    assert refusal in " ".join(rackrate("campaign", "hunt", *arguments, code=2).stderr.split())


def test_what_is_no_hunt_is_not_continued_as_one(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record_campaign("before", status="succeeded", kind="draws")
    result = rackrate("campaign", "hunt", "--continue", "before", code=2)
    assert "before is no hunt; use `rackrate campaign run --continue`." in " ".join(
        result.stderr.split()
    )


def test_a_hunt_has_no_answers_to_require(measured: DeployedStack, rackrate: Rackrate) -> None:
    rackrate("campaign", "hunt", "rtt")
    result = rackrate("campaign", "show", CAMPAIGN, "--require", "rtt better", code=2)
    assert "is a hunt, which has no answers" in " ".join(result.stderr.split())
