"""A dry run's estimate: time, traffic, cost with its sources, and the guards, in 80 columns."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rackrate_cli.errors import Refusal
from rackrate_cli.printing.estimate import print_estimate
from rackrate_cli.reading.documents import read_estimates
from rackrate_cli.reading.runs import Run
from rich.console import Console

from .conftest import DeployedStack, Rackrate, estimates, machine

RUN = Run.from_item(
    {
        "pk": "run#r1",
        "status": "dry_run",
        "blocks": Decimal(6),
        "expected_seconds": Decimal(3725),
        "trials_planned": Decimal(36),
    }
)


def plan_json(**changes: Any) -> bytes:
    document = {"estimates": {**estimates(), **changes}, "placeholder_nodes": False}
    return json.dumps(document).encode()


def printed(content: bytes, run: Run = RUN) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_estimate(console, run, read_estimates(content, "r1"))
    return console.file.getvalue()


def test_the_estimate_shows_every_part_within_80_columns() -> None:
    text = printed(plan_json())
    assert max(map(len, text.splitlines())) <= 80
    joined = " ".join(text.split())
    for part in (
        "36 trials in 6 blocks, about 1 h 02 min; nothing was measured",
        "Cost in eu-central-1", "EC2 c5n.9xlarge, 10 nodes *", "$20.12", "$1.944 (1)",
        "$0.000025 (2)", "$0.0000002 (2)", "512 state transitions", "96 requests",
        "Total", "$20.13",
        "paid while the stack is up, run or not; the run itself adds $0.01",
        "(1) AWS Price List API, eu-central-1",
        "(2) us-east-1 price of 2026-11-01, https://aws.amazon.com/step-functions/pricing/",
        "AccessDeniedException.", "Not included: NAT gateways; taxes.",
        "Guard burst credits would trip: the plan sends 1.23 TB",
        "Remedy: run fewer blocks, or use a larger instance type.",
    ):  # fmt: skip
        assert part in joined, part
    assert "there are enough CPUs" not in joined


def test_a_run_that_may_stop_shows_both_ends() -> None:
    run = Run.from_item({"pk": "run#r1", "status": "dry_run", "blocks": 12, "next_look": 6})
    least = {"blocks": 6, "seconds": 1800, "trials": 18, "usd": 10.07}
    text = " ".join(printed(plan_json(at_least=least), run).split())
    assert "18 to 36 trials in 6 to 12 blocks, about 30 min 00 s to 1 h 02 min" in text
    assert "for the most blocks; it is $10.07 if the run stops after 6." in text


def test_the_estimate_of_an_earlier_release_has_one_end() -> None:
    content = json.loads(plan_json())
    del content["estimates"]["at_least"]
    text = " ".join(printed(json.dumps(content).encode()).split())
    assert "36 trials in 6 blocks, about 1 h 02 min; nothing was measured" in text


def test_what_has_no_price_is_unknown_and_never_free() -> None:
    text = " ".join(printed(plan_json()).split())
    assert "their price is unknown: traffic between zones, billed to both sides." in text
    assert not re.search(r"\$0\.00(?!\d)", text)


@pytest.mark.parametrize(
    ("price", "text"),
    [(1e-12, "<$0.01 (1)"), (1e300, ">$1,000,000,000.00 (1)"), (0.0, "$0 (1)")],
)
def test_a_price_is_never_rounded_to_nothing_and_has_no_endless_digits(
    price: float, text: str
) -> None:
    content = json.loads(plan_json())
    content["estimates"]["cost"]["lines"][0] |= {"usd_per_unit": price, "quantity": 1e300}
    shown = printed(json.dumps(content).encode())
    assert text in " ".join(shown.split())
    assert not re.search(r"\d{20}", shown)


def test_the_busiest_nodes_come_first_and_the_rest_is_counted() -> None:
    text = printed(plan_json())
    assert text.index("ip-10-0-0-10.ec2") < text.index("ip-10-0-0-9.ec2")
    assert "1.23 TB" in text and "5.00 MB" in text
    assert "ip-10-0-0-2.ec2" not in text
    assert "And 2 more nodes" in text


def test_a_plan_that_trips_no_guard_says_so() -> None:
    assert "No guard would trip." in printed(plan_json(guards=[]))


def test_nodes_that_sleep_are_named() -> None:
    content = json.dumps({"estimates": estimates(), "placeholder_nodes": True}).encode()
    assert "No node was awake" in printed(content)


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"x", plan_json(cost={"lines": []}), plan_json(guards=[{}])]
)
def test_an_estimate_that_is_not_complete_is_refused_not_guessed(content: bytes) -> None:
    with pytest.raises(Refusal, match=r"plan\.json of r1"):
        read_estimates(content, "r1")


def test_the_flag_asks_for_a_dry_run_and_its_estimate_is_printed_and_shown_again(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("dry_run", "planned", blocks=6))))
    stack.put("r1", "plan.json", plan_json())
    result = rackrate("run", "--dry-run", "--name", "r1")
    assert "Guard burst credits would trip" in result.stdout
    assert Path("out", "r1", "plan.json").exists()
    (execution,) = stack.executions()
    assert stack.input_of(execution) == {"dry_run": True}
    assert "Guard burst credits would trip" in rackrate("show", "r1").stdout
