"""`--require`: strict syntax, a check before the start, and the effect on the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.baselines import LEAST_RUNS, MOST_RUNS
from rackrate_cli.reading.documents import read_campaign, read_results
from rackrate_cli.reading.requirements import (
    DEFAULT_TESTS,
    VERDICTS,
    Checked,
    check_plan,
    check_planned,
    evaluate,
    parse_requirement,
)

from rackrate.plan import fields
from rackrate.verdict.estimator import Word

from .campaigns import campaign, filled
from .conftest import PLANNED_RUN, DeployedStack, Rackrate, Start, machine, results, verdict

RUN = "run-20261121-070512-ab12"
EARLIER = verdict(baseline="main: r1, r2, r3, r4", verdict="worse", ratio=0.9)
RESULTS = [
    verdict(),
    verdict(arm="spread", verdict="inconclusive", reason="2 blocks", more_blocks=4),
    verdict(test="rtt", metric="rtt", verdict="worse"),
    verdict(test="udp-1", metric="throughput", verdict="no meaningful difference"),
    verdict(test="udp-1", metric="jitter", verdict="better"),
    verdict(test="latency", metric="latency_p99", verdict="better"),
    verdict(test="latency-loaded", metric="latency_p99", verdict="worse"),
    verdict(test="requests", metric="latency_p99_9", verdict="better"),
]


def checked(text: str, *, regressions: list[object] | None = None) -> Checked:
    content = results(RUN, verdicts=RESULTS, regressions=regressions or [])
    return evaluate([parse_requirement(text)], read_results(content, RUN))[0]


def test_tests_and_verdicts_are_those_of_the_stack() -> None:
    assert DEFAULT_TESTS == fields.DEFAULT_TESTS
    assert set(VERDICTS) == set(get_args(Word))
    assert (LEAST_RUNS, MOST_RUNS) == (fields.LEAST_RUNS, fields.MAX_EARLIER_RUNS)


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("tcp-1 treatment better", True),
        ("tcp-1 throughput treatment better", True),
        ("tcp-1 treatment worse", False),
        ("tcp-1 treatment not better", False),
        ("rtt not better", True),
        ("rtt rtt worse", True),
        ("rtt not worse", False),
        ("udp-1 jitter better", True),
        ("latency p99 better", True),
        ("latency p99 treatment better", True),
        ("latency latency_p99 better", True),
        ("requests latency p99.9 better", True),
        ("requests latency_p99_9 worse", False),
        ("latency-loaded latency p99 treatment not worse", False),
        ("latency-loaded latency_p99 worse", True),
        ("udp-1 throughput no meaningful difference", True),
        ("udp-1 throughput better or no meaningful difference", True),
        ("udp-1 throughput not no meaningful difference", False),
        ("  tcp-1   treatment\tbetter ", True),
    ],
)
def test_a_requirement_asks_for_the_verdict_of_what_it_names(text: str, is_met: bool) -> None:
    assert checked(text).is_met is is_met


def filled_in(text: str) -> Checked:
    capacity = [filled("treatment", "cluster group", 11, 12), filled("baseline", "no group", 4)]
    content = campaign(capacity=capacity)
    return evaluate([parse_requirement(text)], read_campaign(content, RUN))[0]


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("fill >= 0.9", True),
        ("fill>=0.91", True),
        ("fill >= 0.95", False),
        ("fill no group >= 1", True),
        ("fill baseline >= 1", True),
        ("fill cluster group >= 1", False),
    ],
)
def test_a_share_of_filled_draws_can_be_required_of_all_arms_or_of_one(
    text: str, is_met: bool
) -> None:
    assert filled_in(text).is_met is is_met


def test_a_share_that_few_draws_do_not_show_is_met_with_that_said() -> None:
    assert filled_in("fill treatment >= 0.9").why == (
        "cluster group 11 of 12 draws filled (95 % CI 19 to 99 %), in 48 s at the median; so few"
        " do not show 90 %"
    )
    assert "do not show" not in filled_in("fill treatment >= 0.1").why


@pytest.mark.parametrize("text", ["fill >= 2", "fill >= much", "fill >= 0", "fills >= 0.9"])
def test_a_share_that_is_none_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(Refusal, match="write one above 0 and up to 1"):
        parse_requirement(text)


def test_a_share_is_refused_where_nothing_was_launched() -> None:
    fill = parse_requirement("fill >= 0.9")
    for check in (
        lambda: check_plan([fill], {}),
        lambda: check_planned([fill], PLANNED_RUN),
        lambda: checked("fill >= 0.9"),
        lambda: filled_in("fill spread >= 0.9"),
    ):
        with pytest.raises(Refusal, match=r'"fill .*" is about launches'):
            check()


@pytest.mark.parametrize("text", ["tcp-1 better", "tcp-1 throughput better", "udp-1 better"])
def test_every_verdict_that_the_names_fit_has_to_be_so(text: str) -> None:
    assert not checked(text).is_met


def test_an_inconclusive_verdict_shows_nothing_but_is_not_worse_either() -> None:
    assert not checked("tcp-1 spread better").is_met
    assert not checked("tcp-1 spread better or no meaningful difference").is_met
    assert checked("tcp-1 spread not worse").is_met
    assert checked("tcp-1 better or inconclusive").is_met


def test_why_it_is_not_met_names_the_arm_the_verdict_and_what_would_settle_it() -> None:
    assert checked("tcp-1 better").why == (
        "spread's tcp-1 throughput is inconclusive, +100 % (95 % CI +99.4 to +101 %): about 4 more"
        " blocks"
    )


@pytest.mark.parametrize(
    ("fields", "has"),
    [
        ({"baseline": "run before"}, 1),
        ({"baseline": "2 runs: r1, r2", "verdict": "inconclusive", "more_runs": 2}, 2),
        ({"baseline": "main: r1, r2, r3, r4", "verdict": "inconclusive", "more_runs": 1}, 3),
    ],
)
def test_fewer_than_four_earlier_runs_neither_meet_a_requirement_nor_fail_it(
    fields: dict[str, object], has: int
) -> None:
    for verdicts in ("not worse", "worse", "inconclusive", "better or no meaningful difference"):
        with pytest.raises(Refusal, match=f"this baseline has {has}; add more with") as caught:
            checked(f"tcp-1 {verdicts} than before", regressions=[verdict(**fields)])
        assert caught.value.exit_code == 2


def test_an_inconclusive_verdict_from_four_runs_is_one_like_any_other() -> None:
    spread = verdict(baseline="main: r1, r2, r3, r4", verdict="inconclusive")
    assert checked("tcp-1 not worse than before", regressions=[spread]).is_met
    strict = "tcp-1 better or no meaningful difference than before"
    assert not checked(strict, regressions=[spread]).is_met


def test_a_requirement_that_no_regression_of_the_margin_fails_is_told_as_that() -> None:
    def gate(smallest: float | None, text: str = "tcp-1 not worse than before") -> Checked:
        fields = {"verdict": "inconclusive", "smallest_regression": smallest}
        return checked(text, regressions=[verdict(baseline="main: r1, r2, r3, r4", **fields)])

    blind = gate(0.66)
    assert blind.is_met and blind.as_document()["could_not_fail"] == blind.could_not_fail
    assert blind.word == (
        "met, but it could not have failed: the earlier runs do not show a regression of 10 % in"
        " treatment's tcp-1 throughput"
    )
    assert "a regression would show from −34 % on" in blind.why
    assert (gate(0.92).word, gate(None).word) == ("met", "met")
    assert "a regression would show from −8 % on" in gate(0.92).why
    strict = gate(0.66, "tcp-1 better or no meaningful difference than before")
    assert strict.word == "not met"


@pytest.mark.parametrize(
    ("earlier", "baseline", "message"),
    [
        (
            "r1",
            "golden",
            "and the baseline golden has 1; add more with `rackrate baseline add gold",
        ),
        (["r1", "r2"], None, "and this baseline has 2; add more with `rackrate baseline add NAME"),
        (None, None, "compare_with"),
    ],
)
def test_a_planned_run_with_too_few_earlier_runs_for_its_gate_is_refused(
    earlier: object, baseline: str | None, message: str
) -> None:
    planned = {
        **PLANNED_RUN,
        "plan": {**PLANNED_RUN["plan"], "compare_with": earlier},
        "compare_with_baseline": baseline,
    }
    with pytest.raises(Refusal, match=message):
        check_planned([parse_requirement("tcp-1 not worse than before")], planned)
    check_planned([parse_requirement("tcp-1 better")], planned)


def test_a_planned_run_with_four_earlier_runs_may_be_a_gate() -> None:
    plan = {**PLANNED_RUN["plan"], "compare_with": ["r1", "r2", "r3", "r4"]}
    planned = {**PLANNED_RUN, "plan": plan, "compare_with_baseline": "main"}
    check_planned([parse_requirement("tcp-1 not worse than before")], planned)


def test_than_before_asks_of_the_earlier_run() -> None:
    assert not checked("tcp-1 not worse than before", regressions=[EARLIER]).is_met
    assert checked("tcp-1 treatment better", regressions=[EARLIER]).is_met
    with pytest.raises(Refusal, match="compare_with"):
        checked("tcp-1 not worse than before")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("tcp-1", "has no verdict"),
        ("better", "has no verdict"),
        ("tcp-1 faster", "has no verdict"),
        ("tcp-1 not faster", '"faster" is no verdict'),
        ("tcp-1 no difference", '"no difference" is no verdict'),
        ("tcp-1 better or", "a verdict is missing"),
        ("tcp-1 better or or worse", "a verdict is missing"),
        ("tcp-1 better than baseline", '"better than baseline" is no verdict'),
        ("tcp-1 a b c d better", "4 names"),
        ("tcp-1 better or not better", "met by every verdict"),
    ],
)
def test_what_is_no_requirement_is_refused_with_its_fault(text: str, message: str) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        parse_requirement(text)
    assert caught.value.exit_code == 2


words = st.sampled_from([*" ".join(VERDICTS).split(), "not", "or", "than", "before", "tcp-1", "x"])


@given(st.text() | st.lists(words).map(" ".join))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        requirement = parse_requirement(text)
    except Refusal as refusal:
        assert len(str(refusal).splitlines()) == 1
    else:
        assert requirement.accepted < set(VERDICTS) and len(requirement.names) <= 3


@pytest.mark.parametrize(
    ("text", "plan", "message"),
    [
        ("tcp-9 better", {}, "use one of requests, requests-loaded, tcp-1 or tcp-8"),
        ("tcp-1 better", {"tests": ["rtt", {"name": "mine"}]}, "use one of rtt or mine"),
        ("tcp-1 throughput c better", {"arms": ["a", {"name": "b"}]}, "begin it with"),
        ("tcp-1 throughput b better", {"arms": ["a", "b"], "baseline": "b"}, "begin it with"),
        ("tcp-1 better than before", {}, "compare_with"),
    ],
)
def test_what_a_plan_can_never_give_is_refused_before_it_is_started(
    text: str, plan: dict[str, object], message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        check_plan([parse_requirement(text)], plan)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("requests not worse", {}),
        ("tcp-1 anything better", {}),
        ("tcp-1 better", {"tests": "wrong"}),
        ("tcp-1 better", {"tests": [{"nam": "x"}]}),
        ("tcp-1 throughput a better", {"arms": ["a", "b"], "baseline": "b"}),
        ("requests not worse than before", {"compare_with": "r1"}),
    ],
)
def test_what_only_the_stack_can_judge_is_left_to_it(text: str, plan: dict[str, object]) -> None:
    check_plan([parse_requirement(text)], plan)


@pytest.mark.parametrize(
    "text", ["tcp-1 jitter better", "udp-1 throughput baseline better", "tcp-1 treatmnt better"]
)
def test_what_a_planned_run_will_not_compare_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="begin it with"):
        check_planned([parse_requirement(text)], PLANNED_RUN)


@pytest.mark.parametrize("text", ["udp-1 jitter treatment better", "tcp-1 treatment better"])
def test_what_a_planned_run_will_compare_may_be_required(text: str) -> None:
    check_planned([parse_requirement(text)], PLANNED_RUN)


def test_an_unmet_requirement_makes_the_exit_code_1_after_the_verdict_was_printed(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    stack.put(RUN, "results.json", results(RUN))
    Path("plan.json").write_text('{"tests": ["tcp-1", "rtt"]}', "utf-8")
    result = rackrate(
        *("run", "--name", RUN, "--plan", "plan.json"),
        *("--require", "tcp-1 better", "--require", "rtt worse"),
        code=1,
    )
    assert "987 Mbit/s" in result.stdout
    assert "Required: tcp-1 better: met" in result.stdout
    assert "Required: rtt worse: not met" in result.stdout
    assert 'The requirement "rtt worse" is not met: treatment\'s rtt is better' in result.stderr
    assert "tcp-1 better" not in result.stderr


def test_met_requirements_leave_the_exit_code_at_0(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1")
    for command in ("show", "watch"):
        rackrate(command, "r1", "--require", "tcp-1 better")


def test_a_failed_run_meets_no_requirement(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.measure("r1", status="failed", error="TrialsLost", cause="9 of 36 trials lost")
    for command in ("show", "watch"):
        result = rackrate(command, "r1", "--require", "tcp-1 better", code=1)
        assert "TrialsLost" in result.stderr


@pytest.mark.parametrize("text", ["tcp-9 better", "", "tcp-1 bettr"])
def test_a_faulty_requirement_starts_nothing(
    text: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate.refused("run", "--require", text)
    assert stack.executions() == []


def test_a_requirement_that_the_planned_run_cannot_meet_stops_it(
    stack: DeployedStack, start: Start, tmp_path: Path
) -> None:
    stack.define_endless("planned", blocks=6)
    stack.put(RUN, "plan.json", json.dumps(PLANNED_RUN).encode())
    process = start("run", "--name", RUN, "--out", tmp_path, "--require", "tcp-1 treatmnt better")
    process.until("cleaning up")
    assert stack.executions()[0]["status"] == "ABORTED"
    stack.record(RUN, status="aborted", phase="torn down")
    _, errors = process.end(2)
    assert '"tcp-1 treatmnt better" fits nothing that is compared' in errors


@pytest.mark.parametrize("other", ["--detach", "--dry-run"])
def test_a_requirement_needs_the_end_of_a_run_that_measures(
    other: str, stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    for option, value in (("--require", "tcp-1 better"), ("--junit", str(tmp_path / "x.xml"))):
        assert option in rackrate.refused("run", other, option, value)
    assert stack.executions() == []
