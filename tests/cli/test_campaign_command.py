"""`rackrate campaign` against a deployed stack: progress, answers, files, failures, Ctrl-C."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rackrate_cli.printing.progress import Left, LiveDisplay, describe_campaign
from rackrate_cli.reading.campaigns import Campaign
from rich.console import Console
from typer.testing import Result

from rackrate_text.units import UNKNOWN

from .campaigns import CAMPAIGN, answer, campaign, cell, filled, latency, planned, run_of, step
from .conftest import (
    PLANNED_RUN,
    TEMPLATE,
    DeployedStack,
    Rackrate,
    Start,
    await_abort,
    client,
    failing,
    going_on,
    machine,
)
from .line import Line

EXPECTED = {"steps": 12, "next_look": 4, "expected_seconds": 7200, "expected_step_seconds": 600}
MONEY = {"usd": 0.42, "budget_dollars": 5}
OUT = Path("out")
PAGE = f'<!doctype html><a href="../../runs/{run_of(1)}/report.html">draw 1</a>'.encode()
KEYS = {"campaign", "stack", "files", "results", "plan", "requirements", "error"}


def finish(stack: DeployedStack, **numbers: float) -> tuple[str, dict[str, Any]]:
    """A last state that writes that the campaign succeeded."""
    return "Done", stack.recording_campaign("succeeded", "done", **numbers)


@pytest.fixture
def measured(stack: DeployedStack) -> DeployedStack:
    """A stack whose campaign is over as soon as it is started, and left its files."""
    stack.define_campaign(machine(finish(stack)))
    stack.put_campaign(CAMPAIGN, "campaign.json", campaign())
    stack.put_campaign(CAMPAIGN, "report.html", PAGE)
    for number in range(1, 5):
        stack.put(run_of(number), "report.html", f"draw {number}".encode())
        stack.put(run_of(number), "plan.json", b"{}")
    return stack


def run(rackrate: Rackrate, *more: str | Path, code: int = 0) -> Result:
    """`rackrate campaign run` with a known id."""
    return rackrate("campaign", "run", "--name", CAMPAIGN, *more, code=code)


def test_the_answers_come_first_and_take_twelve_lines(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    many = [answer(test=f"tcp-{n}", arm=arm) for arm in ("cluster", "spread") for n in range(9)]
    measured.put_campaign(CAMPAIGN, "campaign.json", campaign(answers=many))
    lines = run(rackrate).stdout.splitlines()
    rest = next(n for n, line in enumerate(lines) if line.startswith("And "))
    assert rest < 12
    assert max(len(line) for line in lines if not line.startswith("Results: ")) <= 80
    shown_answers = sum("better" in line for line in lines[:rest])
    assert f"And {len(many) - shown_answers} more answers" in lines[rest]
    everything = rackrate("campaign", "show", CAMPAIGN, "--verbose").stdout
    assert everything.count("better") == len(many)
    assert "more answers" not in everything


def test_the_terminal_says_what_the_group_buys_and_what_the_next_deployment_gets(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    done = run(rackrate)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert len(lines) <= 12
    assert lines[0] == "treatment against baseline, for the placement group, over 4 draws"
    assert "tcp-1 throughput +88 % +66 to +106 % +47 to +132 % better" in lines
    assert "rtt −69 % −98 to +290 % −99.6 to +2300 % inconclusive," in lines
    assert lines[-1] == f"Results: {OUT / CAMPAIGN / 'report.html'}"


def test_the_claim_the_conclusion_and_why_it_stopped_are_printed_on_demand(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    parts = ("makes tcp-1 88 % faster", "Stopped after 4")
    shown = run(rackrate, "--verbose").stdout
    assert [part for part in parts if part not in shown] == []
    shown = rackrate("campaign", "show", CAMPAIGN).stdout
    assert [part for part in parts if part in shown] == []
    assert "This is about the placement group" in shown


def test_the_time_of_the_draws_and_a_trend_are_printed(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    answers = [answer(time="in these 40 min 00 s", trend=1.159)]
    measured.put_campaign(CAMPAIGN, "campaign.json", campaign(answers=answers))
    shown = " ".join(run(rackrate).stdout.split())
    assert "for the placement group, over 4 draws in these 40 min 00 s" in shown
    assert "tcp-1 throughput has a trend: +15.9 % from the first draw to the last." in shown


def test_answers_that_are_not_about_the_group_say_so(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    few = answer(scope="these draws", claim="about these draws alone: 2 are too few")
    measured.put_campaign(CAMPAIGN, "campaign.json", campaign(answers=[few]))
    shown = run(rackrate).stdout
    assert "for the placement group" not in shown
    assert "This is about these draws alone" in shown


def test_the_copy_of_the_page_links_to_the_copies_of_its_runs(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    run(rackrate)
    directory = OUT / CAMPAIGN
    assert sorted(path.name for path in directory.iterdir()) == ["campaign.json", "report.html"]
    assert f'"../{run_of(1)}/report.html"' in (directory / "report.html").read_text("utf-8")
    for number in range(1, 5):
        page = directory / ".." / run_of(number) / "report.html"
        assert page.read_text("utf-8") == f"draw {number}"
    assert not (OUT / "latest").exists()


def test_the_step_its_block_the_time_and_the_dollars_are_shown(
    stack: DeployedStack, start: Start
) -> None:
    now = {"status": "running", "step": 3, **EXPECTED, "usd": Decimal("0.42"), "budget_dollars": 5}
    stack.record(run_of(3), status="running", phase="measuring", block=2, blocks=12, next_look=6)
    stack.record_campaign(CAMPAIGN, phase="draw 3 of at most 12: new nodes", **now)
    stack.define_campaign(machine(("Wait", stack.until_let()), finish(stack)))
    process = start("campaign", "run", "--name", CAMPAIGN)
    changing = "] draw 3 of at most 12: new nodes, $0.42 of $5.00, about "
    measuring = "] draw 3 of at most 12, block 2 of at most 12, $0.42 of $5.00, about "
    process.until(changing)
    stack.record_campaign(CAMPAIGN, phase="measuring", step_run_id=run_of(3), **now)
    assert any(measuring in line and " to " in line for line in process.lines())
    stack.let()
    process.end()


def test_what_the_plan_is_warned_of_is_printed_once_and_before_the_steps(
    stack: DeployedStack, start: Start
) -> None:
    now = {"status": "running", "step": 1, **EXPECTED, "warnings": ["1 pair is few"]}
    stack.record_campaign(CAMPAIGN, phase="step 1 of 4: 2 nodes in each arm", **now)
    stack.define_campaign(machine(("Wait", stack.until_let()), finish(stack)))
    process = start("campaign", "run", "--name", CAMPAIGN)
    before = []
    for line in process.lines():
        before.append(line)
        if "step 1 of 4" in line:
            break
    stack.let()
    _, after = process.end()
    assert sum("Warning: 1 pair is few" in line for line in before) == 1
    assert "1 pair is few" not in after


def test_options_and_files_reach_the_execution(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    file, plan = tmp_path / "campaign.json", tmp_path / "plan.json"
    file.write_text('{"draws": 6, "budget_dollars": 1, "plan": {"blocks": 2}}')
    plan.write_text('{"blocks": 3}')
    options = ("--file", file, "--plan", plan, "--draws", "4-8", "--budget", "2.5",
             "--series", "nightly", "--seed", "7", "--detach")  # fmt: skip
    done = run(rackrate, *options)
    assert done.stdout == f"{CAMPAIGN}\n"
    (execution,) = stack.campaigns()
    assert stack.input_of(execution) == {
        "draws": {"least": 4, "most": 8},
        "budget_dollars": 2.5,
        "plan": {"blocks": 3},
        "series": "nightly",
        "seed": 7,
    }
    run(
        rackrate,
        "--name",
        "second",
        "--detach",
        "--sweep",
        "nodes=15,60",
        "--runs-per-step",
        "3",
    )
    inputs = [stack.input_of(each) for each in stack.campaigns()]
    assert {"sweep": {"nodes": [15, 60]}, "runs_per_step": 3} in inputs
    assert stack.executions() == []


def test_a_campaign_is_continued_by_its_id_or_as_the_latest(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record_campaign("before", status="failed")
    done = run(rackrate, "--continue", "latest", "--draws", "8", "--detach")
    assert stack.input_of(stack.campaigns()[0]) == {"continue": "before", "draws": 8}
    stack.record_campaign("going", status="running", started_at="2026-11-21T17:00:00Z")
    done = run(rackrate, "--continue", "latest", code=2)
    assert "Campaign going is still going" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draws", "many"), "--draws"),
        (("--draws", "4-61"), "from 1 to 60"),
        (("--draws", "4", "--sweep", "nodes=1,2"), "--draws and --sweep exclude"),
        (("--sweep", "instances=1,2"), "vpc_cni, kube_proxy, ami_release, instance_type or nodes"),
        (("--sweep", "nodes=15,15"), "at least two different values"),
        (("--sweep", "nodes=15,many"), "numbers of nodes"),
        (("--sweep", "kube_proxy=iptables,ebpf"), "iptables, ipvs or nftables"),
        (("--runs-per-step", "2"), "add --sweep"),
        (("--runs-per-step", "13", "--sweep", "nodes=1,2"), "1 to 12"),
        (("--series", "n", "--sweep", "nodes=1,2"), "--series"),
        (("--budget", "0"), "--budget is 0"),
        (("--budget", "nan"), "--budget is nan"),
        (("--budget", "inf"), "--budget is inf"),
        (("--continue", "x", "--seed", "1", "--series", "n"), "leave out --series and --seed"),
        (("--continue", "nope"), 'no campaign "nope"'),
        (("--continue", "latest"), "no campaigns yet"),
        (("--file", "none.json"), "leave --file out"),
        (("--file", "-", "--plan", "-"), "both read standard input"),
        (("--name", "a b"), "cannot be a campaign's id"),
        (("--name", "x" * 77), "1 to 76 letters"),
        (("--require", "tcp-9 better"), "requests-loaded, tcp-1 or tcp-8"),
        (("--require", "tcp-1 better than before"), 'leave out "than before"'),
        (("--require", "tcp-1 better", "--dry-run"), "a dry run has none"),
        (("--require", "tcp-1 better", "--detach"), "rackrate campaign watch"),
        (("--require", "tcp-1 better", "--sweep", "nodes=1,2"), "a sweep has none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_option_is_one_sentence_before_anything_starts(
    arguments: tuple[str, ...], message: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    assert message in rackrate.refused("campaign", "run", *arguments)
    assert stack.campaigns() == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "a campaign is a JSON object"),
        ('{"tests": ["tcp-1"]}', "--plan"),
        ('{"draws": 6, "pool": ["a"]}', "draws and pool exclude each other"),
        ('{"runs_per_step": 3}', "runs_per_step"),
        ('{"plan": []}', "plan is not a JSON object"),
        ('{"plan": {"dry_run": true}}', "plan.dry_run"),
        ('{"plan": {"campaign": "c"}}', "plan.campaign"),
        ('{"series": "n", "pool": ["a"]}', "series"),
    ],
)
def test_a_wrong_field_is_one_sentence_before_anything_starts(
    content: str, message: str, stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text(content)
    assert message in rackrate.refused("campaign", "run", "--file", tmp_path / "c.json")
    assert stack.campaigns() == []


def test_the_id_of_a_run_is_refused_before_anything_starts(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("mine", status="running")
    done = run(rackrate, "--name", "mine", code=2)
    assert 'a run "mine"' in done.stderr and "--name" in done.stderr
    assert stack.campaigns() == []
    stack.record("mine", status="invalid")
    run(rackrate, "--name", "mine", "--detach")


def test_a_stack_without_campaigns_says_how_to_update_it(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    old = f"{stack.name}-old"
    outputs = {k: v for k, v in TEMPLATE["Outputs"].items() if "Campaign" not in k}
    client("cloudformation").create_stack(
        StackName=old,
        TemplateBody=json.dumps({**TEMPLATE, "Outputs": outputs}),
        Parameters=[
            {"ParameterKey": name, "ParameterValue": stack.state_machine}
            for name in TEMPLATE["Parameters"]
        ],
    )
    for arguments in (("run",), ("watch", "c"), ("show", "c"), ("list",)):
        message = rackrate.refused("campaign", *arguments, "--stack", old)
        assert "CampaignStateMachineArn" in message and "update the stack" in message
    rackrate("list", "--stack", old)


def test_a_campaign_meets_its_requirements_or_ends_with_one(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    met = run(rackrate, "--require", "tcp-1 better")
    assert "Required: tcp-1 better: met" in met.stdout
    shown = rackrate("campaign", "show", CAMPAIGN, "--require", "rtt better", code=1)
    assert '"rtt better" is not met' in shown.stderr
    assert "about 3 more draws" in shown.stderr


def test_how_often_the_nodes_came_is_printed_and_can_be_required(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    refused = "ng-1: InsufficientInstanceCapacity - no c5.large in this zone"
    capacity = [
        filled("treatment", "cluster group", 3, reasons=[refused]),
        filled("baseline", "no group", 4),
    ]
    unfilled = [step(number, status="unfilled", reason=refused) for number in (5, 6)]
    steps = [*(step(number) for number in range(1, 5)), *unfilled]
    measured.put_campaign(CAMPAIGN, "campaign.json", campaign(capacity=capacity, steps=steps))
    done = run(rackrate, "--require", "fill >= 0.75", "--require", "fill no group >= 0.9")
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Results: ")) <= 80
    shown = " ".join(done.stdout.split())
    assert (
        "Capacity: cluster group 3 of 4 draws filled (95 % CI 19 to 99 %), in 48 s at the median;"
        " no group 4 of 4 (40 to 100 %), in 48 s at the median."
    ) in shown
    assert shown.count(refused) == 1, "why is said once for all draws"
    assert "Required: fill >= 0.75: met" in shown and "fill no group >= 0.9: met" in shown
    missed = rackrate("campaign", "show", CAMPAIGN, "--require", "fill >= 0.9", code=1)
    assert '"fill >= 0.9" is not met: cluster group 3 of 4 draws filled' in " ".join(
        missed.stderr.split()
    )


def test_a_requirement_that_no_run_can_meet_stops_the_campaign(
    stack: DeployedStack, start: Start, tmp_path: Path
) -> None:
    stack.record(run_of(1), status="running", phase="measuring", block=0, blocks=6)
    stack.put(run_of(1), "plan.json", json.dumps(PLANNED_RUN).encode())
    going = stack.recording_campaign("running", "measuring", run=run_of(1), step=1, **EXPECTED)
    stack.define_campaign(machine(("Run", going), ("Wait", going_on())))
    process = start(
        "campaign", "run", "--name", CAMPAIGN, "--out", tmp_path, "--require", "tcp-1 jitter better"
    )
    process.until("stopping", "putting back")
    stack.record_campaign(CAMPAIGN, status="aborted")
    _, errors = process.end(2)
    assert "fits nothing that is compared in the run" in errors
    assert stack.campaigns()[0]["status"] == "ABORTED"


def test_every_fault_of_an_invalid_campaign_is_printed(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    lines = ["budget_dollars: $0.01 is less than one draw may cost, $0.21; allow more",
             "plan.blocks: must be at least 1; write 6 or more"]  # fmt: skip
    stack.define_campaign(machine(("Refuse", failing("InvalidCampaign", "\n".join(lines)))))
    stack.record_campaign(CAMPAIGN, status="invalid", phase="refused")
    done = run(rackrate, code=2)
    assert "nothing was started" in done.stderr
    assert all(line in done.stderr for line in lines)
    assert list(OUT.iterdir()) == []


def test_a_failed_campaign_names_its_error_and_shows_what_it_has(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    recording = measured.recording_campaign("failed", "restored")
    failure = failing("NodesUnavailable", "the node group has no capacity in us-east-1a")
    measured.define_campaign(machine(("Record", recording), ("Fail", failure)))
    lost = step(4, status="lost", reason="the node group has no capacity")
    content = campaign({"status": "failed"}, steps=[*map(step, (1, 2, 3)), lost])
    measured.put_campaign(CAMPAIGN, "campaign.json", content)
    done = run(rackrate, code=1)
    assert f"Campaign {CAMPAIGN} failed." in done.stderr
    assert "NodesUnavailable: the node group has no capacity in us-east-1a" in done.stderr
    assert "+66 to +106 %" in done.stdout
    assert "Step 4 (new nodes" in done.stdout and "lost: the node group" in done.stdout
    assert (OUT / CAMPAIGN / "report.html").exists()


def test_ctrl_c_stops_the_campaign_and_waits_until_all_is_put_back(
    stack: DeployedStack, start: Start
) -> None:
    going = stack.recording_campaign("running", "replacing the nodes", step=1, **EXPECTED)
    stack.define_campaign(machine(("Change", going), ("Wait", going_on())))
    process = start("campaign", "run", "--name", CAMPAIGN)
    process.until("replacing the nodes")
    process.send()
    await_abort(stack.campaigns)
    stack.record_campaign(CAMPAIGN, status="aborted", phase="restoring", changed={"size": 2})
    process.until("putting back what was changed")
    assert process.is_running, "it must wait until all is put back"
    stack.record_campaign(CAMPAIGN, status="aborted", phase="restored")
    _, errors = process.end(130)
    assert "was stopped and what it changed is put back" in errors
    assert "Traceback" not in errors


def test_a_campaign_that_was_skipped_says_why_and_is_not_the_latest(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    why = "Skipped: the campaign first of its series is still going."
    skipped = {"status": "skipped", "started_at": "2026-11-22T16:00:00Z", "conclusion": why}
    stack.record_campaign("first", status="succeeded")
    stack.record_campaign("second", **skipped)
    shown = rackrate("campaign", "show", "second")
    assert why in shown.stdout
    rackrate("campaign", "watch", "second")
    latest = rackrate("campaign", "show", "latest")
    assert "Campaign first: succeeded" in latest.stdout
    assert "skipped" in rackrate("campaign", "list").stdout


def test_a_dry_run_prints_time_dollars_and_the_draws_that_may_be_needed(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define_campaign(
        machine(("Done", stack.recording_campaign("dry_run", "planned", budget_dollars=2)))
    )
    stack.put_campaign(CAMPAIGN, "plan.json", planned(guards_that_would_trip=["too few CPUs"]))
    done = run(rackrate, "--dry-run")
    shown = " ".join(done.stdout.split())
    assert "4 to 12 draws in about 52 min 00 s to 3 h 00 min; nothing was changed" in shown
    assert "about $0.84 to $2.52; the budget is $2.00, and the campaign stops before" in shown
    assert "1.1 times 4 11 39" in shown
    assert "no meaningful difference 4 14 >60" in shown
    assert "A guard would trip: too few CPUs." in shown
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Results: ")]
    assert max(map(len, lines)) <= 80
    assert stack.input_of(stack.campaigns()[0]) == {"dry_run": True}


def test_a_sweep_is_a_table_of_its_values(measured: DeployedStack, rackrate: Rackrate) -> None:
    first = {"ratio": None, "ci95": None, "verdict": None}
    cells = [
        cell("v1.14.1-eksbuild.1", **first),
        cell("v1.15.4-eksbuild.1"),
        cell(15, test="rtt", metric="rtt", unit="s", mean=1e-4, share_of_nominal=None, **first),
        cell(60, test="rtt", metric="rtt", unit="s", mean=None, share_of_nominal=None,
             ratio=None, ci95=None, verdict=None),
    ]  # fmt: skip
    content = campaign({"kind": "sweep"}, answers=[], sweep=cells)
    measured.put_campaign(CAMPAIGN, "campaign.json", content)
    done = run(rackrate)
    rows = [line.split() for line in done.stdout.splitlines()]
    new = "v1.15.4-eksbuild.1 24.1 Gbit/s 48.2 % +21 % (+18 to +24 %) better"
    assert new.split() in rows
    assert ["v1.14.1-eksbuild.1", "24.1", "Gbit/s", "48.2", "%"] in rows
    assert ["60", UNKNOWN, UNKNOWN, UNKNOWN] in rows
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Results: ")]
    assert max(map(len, lines)) <= 80
    refused = rackrate("campaign", "show", CAMPAIGN, "--require", "rtt better", code=2)
    assert "is a sweep" in refused.stderr


# -- watch, show, list


def test_watch_follows_a_campaign_and_leaves_it_alone(stack: DeployedStack, start: Start) -> None:
    going = stack.recording_campaign(
        "running", "step 2 of at most 12: measuring", step=2, **EXPECTED
    )
    stack.define_campaign(machine(("Run", going), ("Wait", going_on())))
    client("stepfunctions").start_execution(
        stateMachineArn=stack.campaign_machine, name=CAMPAIGN, input="{}"
    )
    process = start("campaign", "watch", CAMPAIGN)
    process.until("step 2 of at most 12: measuring")
    process.send()
    _, errors = process.end(130)
    assert f"`rackrate campaign watch {CAMPAIGN}` follows it again" in errors
    assert stack.campaigns()[0]["status"] == "RUNNING"


def test_watch_of_a_campaign_that_is_over_prints_its_answers(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    measured.record_campaign(CAMPAIGN, status="degraded")
    done = rackrate("campaign", "watch", "latest", "--out", "out")
    assert "+66 to +106 %" in done.stdout
    assert (OUT / run_of(4) / "report.html").exists()


def test_show_prints_the_answers_and_the_end_of_an_earlier_campaign(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    measured.record_campaign(CAMPAIGN, status="failed", error="NodesUnavailable", cause="none")
    done = rackrate("campaign", "show", CAMPAIGN)
    assert done.stdout.startswith("treatment against baseline, ")
    assert f"Campaign {CAMPAIGN}: failed" in done.stdout
    assert "NodesUnavailable: none" in done.stderr
    assert f"s3://{measured.bucket}/campaigns/{CAMPAIGN}/" in done.stdout


def test_show_prints_what_a_campaign_does_or_has_still_to_put_back(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record_campaign("c1", status="running", step=2, steps=12,
                          phase="step 2 of at most 12: replacing the nodes",
                          least=4)  # fmt: skip
    shown = rackrate("campaign", "show", "c1").stdout
    assert "Now: step 2 of at most 12: replacing the nodes" in shown
    stack.record_campaign("c1", status="aborted", changed={"size": 2})
    shown = rackrate("campaign", "show", "c1").stdout
    assert "not put back yet" in shown


def test_list_is_newest_first_and_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    assert "no campaigns yet" in rackrate("campaign", "list").stdout
    stack.record_campaign(CAMPAIGN, status="timed_out", kind="sweep", step=12, steps=12)
    stack.record_campaign("newer", status="running", started_at="2026-11-22T16:00:00Z")
    shown = rackrate("campaign", "list").stdout
    assert shown.index("newer") < shown.index(CAMPAIGN)
    assert max(map(len, shown.splitlines())) <= 80
    assert "timed out" in shown


def test_runs_of_a_campaign_are_marked_in_the_list_of_runs(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("alone", status="succeeded")
    assert "*" not in rackrate("list").stdout
    stack.record("child", status="succeeded", campaign=CAMPAIGN)
    shown = rackrate("list").stdout
    assert "child *" in shown and "alone *" not in shown
    assert "* a step of a campaign" in shown


def test_a_campaign_named_as_a_run_is_distinguished(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record_campaign(CAMPAIGN, status="succeeded")
    done = rackrate("show", CAMPAIGN, code=2)
    assert f"rackrate campaign show {CAMPAIGN}" in done.stderr


@pytest.mark.parametrize("command", ["watch", "show"])
def test_an_unknown_campaign_is_refused(
    command: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    for name, message in (("nope", 'no campaign "nope"'), ("latest", "no campaigns yet")):
        assert message in rackrate.refused("campaign", command, name)


# -- programs


def test_a_campaign_its_results_and_its_requirements_are_one_document(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    done = run(rackrate, "--json", "--require", "tcp-1 worse", code=1)
    document = json.loads(done.stdout)
    assert document.keys() == KEYS | {"directory"}
    assert document["campaign"]["id"] == CAMPAIGN and document["campaign"]["status"] == "succeeded"
    assert document["results"] == json.loads(campaign())
    assert document["directory"] == str(OUT / CAMPAIGN)
    assert [each["met"] for each in document["requirements"]] == [False]
    shown = rackrate("campaign", "show", CAMPAIGN, "--json")
    assert json.loads(shown.stdout).keys() == KEYS
    listed = rackrate("campaign", "list", "--json")
    assert [each["id"] for each in json.loads(listed.stdout)["campaigns"]] == [CAMPAIGN]


def test_results_of_another_schema_are_refused(measured: DeployedStack, rackrate: Rackrate) -> None:
    content = campaign().replace(b"rackrate.campaign.v1", b"rackrate.campaign.v9")
    measured.put_campaign(CAMPAIGN, "campaign.json", content)
    done = run(rackrate, code=2)
    assert '"rackrate.campaign.v9"' in done.stderr
    measured.put_campaign(CAMPAIGN, "campaign.json", b'{"schema": "rackrate.campaign.v1"}')
    done = rackrate("campaign", "show", CAMPAIGN, code=1)
    assert "is not a complete rackrate.campaign.v1" in done.stderr


def test_a_change_of_the_newest_draw_is_printed(
    measured: DeployedStack, rackrate: Rackrate
) -> None:
    answers = [answer(changed=True), latency(changed=False)]
    measured.put_campaign(CAMPAIGN, "campaign.json", campaign(answers=answers))
    shown = run(rackrate).stdout
    assert "tcp-1 throughput changed: the newest draw differs from those before it." in shown
    assert "rtt changed" not in shown


# -- the connection


def test_a_lost_connection_is_reported_and_the_campaign_is_followed_again(
    stack: DeployedStack, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = stack.recording_campaign(
        "running", "step 2 of at most 12: measuring", step=2, **EXPECTED
    )
    stack.define_campaign(machine(("Run", going), ("Wait", going_on())))
    line = Line(int(os.environ["MOTO_PORT"]))
    monkeypatch.setenv("AWS_ENDPOINT_URL", line.url)
    process = start("campaign", "run", "--name", CAMPAIGN)
    process.until("step 2 of at most 12")
    line.cut()
    process.until("no answer from AWS, trying again")
    assert process.is_running
    line.mend()
    process.until("step 2 of at most 12")
    client("stepfunctions").stop_execution(executionArn=stack.campaigns()[0]["executionArn"])
    stack.record_campaign(CAMPAIGN, status="aborted")
    _, errors = process.end(1)
    line.close()
    assert "was stopped and what it changed is put back" in errors


def test_a_terminal_shows_step_block_dollars_and_time_within_80_columns() -> None:
    console = Console(force_terminal=True, width=80, file=StringIO())
    record = Campaign.from_item(
        {
            "pk": f"campaign#{CAMPAIGN}",
            "status": "running",
            "kind": "draws",
            "step": 3,
            **EXPECTED,
            **MONEY,
        }
    )
    what = describe_campaign(record, "block 2 of at most 12")
    with LiveDisplay(console) as display:
        display.show(what, 1230, Left(1800, 6700))
        lines = console.render_lines(display.renderable)
    text = "\n".join("".join(part.text for part in line).rstrip() for line in lines)
    assert "draw 3 of at most 12, block 2 of at most 12" in text
    assert "$0.42 of $5.00, about 30 min 00 s to 1 h 51 min left" in text
    assert "20 min 30 s" in text
    assert "…" not in text
