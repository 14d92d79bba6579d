"""The benchmarks' pure parts: wrong verdicts, the large run, and the printed lines."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import subprocess
from typing import Any

import pytest

from benchmarks import deciding, fidelity, lab_campaign, lab_hunt, opening
from benchmarks.deciding import Records
from benchmarks.lab_campaign import Truth
from benchmarks.lab_verdicts import AA, AB, Series, criterion, is_wrong, rows, tally
from benchmarks.points import ImpossibleFigure, Point, judge, positive, share
from lab.errors import LabError
from rackrate.measure.trials import Trial
from rackrate.plan.items import items_from_json, planned_trials
from rackrate.results.rows import trials_csv
from rackrate.verdict.capacity import interval_of_share
from rackrate_contract.campaign import Hunt, HuntedDraw
from rackrate_contract.capacity import Capacity
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit import builders
from tests.unit.report import samples
from tests.unit.samples import DATA


def verdict(word: str, test: str = "tcp-1", metric: str = "throughput", **more: Any) -> Any:
    """A verdict as in results.json."""
    return {
        "test": test,
        "metric": metric,
        "verdict": word,
        "ratio": 1.1,
        "ci_simultaneous": [1.0601, 1.1404],
        **more,
    }


def results(*verdicts: Any) -> dict[str, Any]:
    return {"verdicts": list(verdicts)}


SAME = verdict("no meaningful difference")
UNSURE_RTT = verdict("inconclusive", "rtt", "rtt", ratio=None, ci_simultaneous=None)


@pytest.mark.parametrize("word", ["better", "worse"])
@pytest.mark.parametrize(("test", "metric"), [("tcp-1", "throughput"), ("rtt", "rtt")])
def test_any_difference_between_identical_arms_is_wrong(word: str, test: str, metric: str) -> None:
    assert is_wrong(AA, results(SAME, verdict(word, test, metric)))


def test_a_difference_in_steadiness_between_identical_arms_is_wrong_too() -> None:
    unsteady = verdict("no meaningful difference", steadiness={"verdict": "worse"})
    assert is_wrong(AA, results(unsteady))


def test_identical_arms_may_be_judged_alike_or_be_inconclusive() -> None:
    steady = verdict("no meaningful difference", steadiness={"verdict": "inconclusive"})
    assert not is_wrong(AA, results(steady, UNSURE_RTT))


@pytest.mark.parametrize("word", ["worse", "no meaningful difference", "inconclusive"])
def test_caps_that_differ_are_missed_by_every_word_but_better(word: str) -> None:
    assert is_wrong(AB, results(verdict(word), verdict("better", "tcp-8")))


def test_caps_that_differ_are_found_by_the_single_flow_whatever_else_is_reported() -> None:
    assert not is_wrong(AB, results(UNSURE_RTT, verdict("better")))


@pytest.mark.parametrize("series", [AA, AB])
@pytest.mark.parametrize("nothing", [None, {"verdicts": []}])
def test_a_run_without_verdicts_is_wrong_in_either_series(series: Series, nothing: Any) -> None:
    assert is_wrong(series, nothing)


@pytest.mark.parametrize("series", [AA, AB])
@pytest.mark.parametrize(
    ("runs", "wrong", "holds"),
    [(20, 0, True), (20, 1, True), (20, 2, False), (10, 0, True), (10, 1, False), (40, 2, True)],
)
def test_one_of_twenty_runs_may_be_wrong(
    series: Series, runs: int, wrong: int, holds: bool
) -> None:
    point = criterion(series, [True] * wrong + [False] * (runs - wrong))
    assert point.holds is holds
    assert f"{wrong if series is AA else runs - wrong} of {runs} runs" in point.what


def test_no_runs_prove_nothing() -> None:
    assert not criterion(AA, [])[0]


def test_a_row_reports_seed_ratio_interval_and_word_of_every_verdict() -> None:
    written = rows(
        7, results(verdict("better", steadiness={"verdict": "worse"}), UNSURE_RTT), wrong=True
    )
    assert written == [
        "     7  tcp-1 throughput   1.100    1.060 to 1.140  better; steadiness: worse",
        "     7  rtt rtt                -                 -  inconclusive  <- wrong",
    ]


def test_a_run_without_verdicts_has_a_row() -> None:
    assert rows(7, None, wrong=True) == ["     7  no verdicts  <- wrong"]


def test_the_tally_counts_words_and_skips_runs_without_verdicts() -> None:
    assert tally([results(SAME), None, results(SAME), results(verdict("better"))]) == [
        "  tcp-1 throughput: 2 no meaningful difference, 1 better"
    ]


# -- fidelity

#: Captured outputs, whose traffic flowed for 2.001, 1.000, 1.835 and 1.000 s by the tools' own
#: times.
TWO_SECONDS, ONE_SECOND, PINGED, REQUESTED = (
    "iperf3/one-stream.json",
    "iperf3/eight-streams.json",
    "ping/ten-replies.txt",
    "fortio/1.66.0/tcp.txt",
)
HISTORY = [
    {**event, "timestamp": datetime.datetime.fromisoformat(event["timestamp"])}
    for event in json.loads((DATA / "step_functions/run.history.json").read_text("utf-8"))
]
#: From the start of the map's second pass to its end; the first, the warm-up, took 0.547 s.
BLOCKS_SECONDS = 3.075


def ran(block: int, arm: str, test: str, raw: str, **more: Any) -> Trial:
    """A trial that printed what is in a file of the captures."""
    return builders.trial(
        block=block, arm=arm, test=test, raw_key=raw, warm_up=block == 0, values={}, **more
    )


def traffic(*trials: Trial, history: Any = HISTORY, warmed_up: bool = True) -> float:
    """The share, out of the files that a run leaves."""
    if warmed_up:
        trials = (ran(0, "baseline", "tcp-1", TWO_SECONDS), *trials)
    rows = list(csv.DictReader(io.StringIO(trials_csv(trials, samples.results(trials=trials), {}))))
    printed = {str(t.raw_key): (DATA / str(t.raw_key)).read_text("utf-8") for t in trials}
    return fidelity.traffic_share(history, rows, printed)


def test_the_warm_up_is_no_part_of_the_share_of_time_with_traffic() -> None:
    blocks = ran(1, "baseline", "tcp-1", TWO_SECONDS), ran(2, "baseline", "tcp-1", ONE_SECOND)
    assert traffic(*blocks) == pytest.approx(3.0017 / BLOCKS_SECONDS, rel=1e-4)


def test_arms_at_the_same_time_count_once_and_tests_after_each_other_both() -> None:
    together = ran(1, "treatment", "tcp-1", ONE_SECOND), ran(1, "baseline", "tcp-1", ONE_SECOND)
    assert traffic(*together) == pytest.approx(1.0003 / BLOCKS_SECONDS, rel=1e-4)
    after = ran(1, "treatment", "rtt", PINGED), ran(1, "baseline", "rtt", PINGED)
    assert traffic(*together, *after) == pytest.approx(2.8356 / BLOCKS_SECONDS, rel=1e-4)
    requests = ran(1, "baseline", "rtt", REQUESTED)
    assert traffic(*together, requests) == pytest.approx(2.0002 / BLOCKS_SECONDS, rel=1e-3)


@pytest.mark.parametrize("other", [{"round": 2}, {"attempt": 2}])
def test_rounds_and_attempts_come_after_each_other(other: dict[str, int]) -> None:
    trials = (
        ran(1, "treatment", "tcp-1", ONE_SECOND),
        ran(1, "baseline", "tcp-1", ONE_SECOND, **other),
    )
    assert traffic(*trials) == pytest.approx(2.0006 / BLOCKS_SECONDS, rel=1e-4)


def test_a_run_without_a_warm_up_has_one_pass_of_the_map() -> None:
    cold = HISTORY[HISTORY.index(next(e for e in HISTORY if e.get("state") == "Check links")) :]
    block = ran(1, "baseline", "tcp-1", ONE_SECOND)
    assert traffic(block, history=cold, warmed_up=False) == pytest.approx(
        1.0003 / BLOCKS_SECONDS, rel=1e-4
    )


def test_each_batch_of_blocks_is_a_pass_of_the_map_and_counts() -> None:
    block = ran(1, "baseline", "tcp-1", ONE_SECOND)
    blocks = HISTORY[HISTORY.index(next(e for e in HISTORY if e.get("state") == "Check links")) :]
    assert traffic(block, history=[*HISTORY, *blocks]) == pytest.approx(
        1.0003 / (2 * BLOCKS_SECONDS), rel=1e-4
    )


def test_more_traffic_than_time_is_refused_and_so_is_none() -> None:
    blocks = [ran(block, "baseline", "tcp-1", TWO_SECONDS) for block in range(1, 3)]
    with pytest.raises(ImpossibleFigure, match=r"cannot be 130\.2%"):
        traffic(*blocks)
    with pytest.raises(ImpossibleFigure, match="seconds of test traffic cannot be 0"):
        traffic()
    with pytest.raises(ImpossibleFigure, match="began 2 times and ended 1 times"):
        traffic(*blocks, history=HISTORY[:57])
    with pytest.raises(ImpossibleFigure, match="no times"):
        traffic(ran(1, "baseline", "tcp-1", "counters/veth.txt"))


@pytest.mark.parametrize("value", [-0.01, 1.01, 11.62, math.inf, math.nan])
def test_what_cannot_be_a_share_is_refused(value: float) -> None:
    with pytest.raises(ImpossibleFigure, match="the part cannot be"):
        share(value, "the part")


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, None])
def test_what_no_throughput_or_time_can_be_is_refused(value: float | None) -> None:
    with pytest.raises(ImpossibleFigure, match="the rate cannot be"):
        positive(value, "the rate")


def test_what_can_be_is_handed_on() -> None:
    assert [share(value, "it") for value in (0, 0.5, 1)] == [0, 0.5, 1]
    assert positive(1e-9, "it") == 1e-9


# -- the cost of deciding


def read_all(records: Records, prefix: str, **request: Any) -> list[dict[str, Any]]:
    """All items of the run whose sort keys begin with `prefix`, read as a paginator does."""
    items: list[dict[str, Any]] = []
    values = {":pk": {"S": "run#deciding"}, ":prefix": {"S": prefix}}
    while True:
        answer = records.query(ExpressionAttributeValues=values, **request)
        items += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return items
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


@pytest.fixture(scope="module")
def measured_run() -> Records:
    records = Records()
    deciding.plan(records, nodes=8, blocks=2)
    deciding.measure(records)
    return records


def test_every_planned_trial_of_the_large_run_is_stored(measured_run: Records) -> None:
    schedule = items_from_json(measured_run.objects["runs/deciding/schedule.json"])
    stored = {sk for sk in measured_run.items["run#deciding"] if sk.startswith("trial#")}
    # A ring of four nodes has four pairs, in each of the two arms.
    assert len(planned_trials(schedule)) == 2 * 4 * 2 * 3
    for key in planned_trials(schedule):
        assert f"trial#{key.block:04d}#{key.arm}#{key.test}#{key.client}#{key.server}" in stored


def test_pages_hold_every_item_once_and_no_more_than_was_asked_for(
    measured_run: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "PAGE_BYTES", 3000)
    items = read_all(
        measured_run,
        "trial#0001#",
        ProjectionExpression="#sk, #value",
        ExpressionAttributeNames={"#sk": "sk", "#value": "value"},
    )
    partition = measured_run.items["run#deciding"]
    assert [item["sk"]["S"] for item in items] == sorted(
        sk for sk in partition if sk.startswith("trial#0001#")
    )
    assert all(
        item == {n: partition[item["sk"]["S"]][n] for n in ("sk", "value")} for item in items
    )


def test_an_unprojected_page_holds_whole_items(measured_run: Records) -> None:
    assert read_all(measured_run, "run") == [measured_run.items["run#deciding"]["run"]]


@pytest.mark.parametrize(
    ("seconds", "peak", "holds"),
    [
        (29.9, 999_999_999, True),
        (30.0, 1, False),
        (1.0, 1_000_000_000, False),
        (0.0, 1, False),
        (1.0, 0, False),
        (math.nan, 1, False),
    ],
)
def test_deciding_may_cost_a_tenth_of_the_functions_time_and_a_gigabyte(
    seconds: float, peak: int, holds: bool
) -> None:
    function = load(ROOT / "templates" / "benchmark.yaml")["Resources"]["AnalyzeFunction"]
    assert function["Properties"]["Timeout"] == 10 * deciding.MOST_SECONDS
    cost = {"seconds": seconds, "processor_seconds": 1.0, "peak_bytes": peak}
    assert deciding.judged(cost).holds is holds


# -- the cost of opening the page


def moments(shown: float) -> dict[str, float]:
    return {"first paint": shown / 2, opening.SHOWN: shown}


@pytest.mark.parametrize(
    ("size", "seconds", "holds"),
    [
        (1_999_999, (2.9, 2.9, 9.0), True),
        (2_000_000, (1.0, 1.0, 1.0), False),
        (1, (1.0, 3.0, 3.0), False),
        (0, (1.0, 1.0, 1.0), False),
        (1, (0.0, 0.0, 0.0), False),
    ],
)
def test_a_large_page_may_have_two_megabytes_and_take_three_seconds(
    size: int, seconds: tuple[float, ...], holds: bool
) -> None:
    assert opening.judged(size, [moments(each) for each in seconds]).holds is holds


def test_a_moment_has_its_median_and_its_extremes() -> None:
    lines = opening.table([moments(each) for each in (3.0, 1.0, 1.5)]).splitlines()
    assert lines[1].split()[-3:] == ["0.750", "0.500", "1.500"]
    assert lines[2].split()[-3:] == ["1.500", "1.000", "3.000"]


def answer(**more: Any) -> dict[str, Any]:
    """An answer of campaign.json."""
    return {
        "test": "tcp-1",
        "ratio": 2.0,
        "ci95": [1.95, 2.05],
        "ci_simultaneous": [1.9, 2.1],
        "prediction95": [1.8, 2.2],
        "verdict": "better",
        "reason": None,
        **more,
    }


@pytest.mark.parametrize(
    ("true_ratio", "holds"), [(1.995, True), (2.15, False), (2.3, False), (1.91, True)]
)
def test_a_campaign_holds_only_if_its_intervals_contain_the_truth(
    true_ratio: float, holds: bool
) -> None:
    assert lab_campaign.judged(answer(), Truth.of([true_ratio, true_ratio])).holds is holds


def test_a_campaign_whose_next_draw_misses_the_truth_fails() -> None:
    wide = answer(ci_simultaneous=[1.0, 3.0], prediction95=[1.9, 1.95])
    assert not lab_campaign.judged(wide, Truth.of([2.0, 2.0])).holds


def test_an_answer_without_an_interval_is_no_proof() -> None:
    with pytest.raises(ImpossibleFigure, match="no interval"):
        lab_campaign.judged(answer(ci_simultaneous=None, reason="one draw"), Truth(2, 2, 2))


def test_a_truth_that_rests_on_measurements_has_students_interval() -> None:
    true = Truth.of([2.0, 2.1, 2.2, 2.1])
    # The logarithms' mean is 0.7414 and its standard error 0.01947; t of three degrees is 3.182.
    assert (true.low, true.high) == pytest.approx((1.9727, 2.2330), rel=1e-3)
    assert true.meets((2.2, 2.4)) and not true.meets((2.25, 2.4))
    assert "truth 2.099 (1.97" in lab_campaign.judged(answer(), true).what


def test_a_truth_that_could_be_anything_judges_nothing() -> None:
    with pytest.raises(ImpossibleFigure, match="too vague"):
        lab_campaign.judged(answer(), Truth.of([1.5, 2.5]))


def lab_hunts(
    *, better_than: tuple[float, float] = (0.4, 1.0), filled: int = 8, noise: float = 0.0
) -> list[lab_hunt.Ended]:
    """Six hunts in the lab that keep good placements, each after ten launches."""
    fill = Capacity.model_construct(filled=filled, launches=10, ci95=interval_of_share(filled, 10))
    hunts = []
    for kept in range(6):
        sums = [24, 16, kept]
        draws = [
            HuntedDraw.model_construct(value=math.exp(each / 30 + noise * (-1) ** number))
            for number, each in enumerate(sums)
        ]
        hunt = Hunt.model_construct(
            draws=tuple(draws), rank=1, better_than=0.8, better_than_ci95=better_than
        )
        hunts.append(lab_hunt.Ended(hunt, (fill,), sums))
    return hunts


def test_hunts_in_the_lab_hold_only_if_what_they_say_is_true() -> None:
    assert all(point.holds for point in lab_hunt.points(lab_hunts()))
    ranks = [point.holds for point in lab_hunt.points(lab_hunts(better_than=(0.1, 0.5)))]
    assert ranks == [False, True, True, True]
    fills = [point.holds for point in lab_hunt.points(lab_hunts(filled=2))]
    assert fills == [True, True, False, False]


def test_hunts_whose_figures_do_not_follow_the_places_are_not_judged() -> None:
    with pytest.raises(ImpossibleFigure, match="idle machine"):
        list(lab_hunt.points(lab_hunts(noise=2.0)))


def test_the_true_share_of_worse_placements_counts_those_alike_at_its_upper_end() -> None:
    assert lab_hunt.worse_than(0) == (255 / 256, 1.0)
    assert lab_hunt.worse_than(30) == (0.0, 1 / 256)


def test_the_spine_is_no_part_of_what_a_round_trip_takes_on_the_machine() -> None:
    rtt = verdict("better", "rtt", "rtt", arm_median=60e-6, baseline_median=480e-6)
    machine = lab_campaign.machine_of(results(verdict("better"), rtt))
    assert machine.within_seconds == pytest.approx(60e-6)
    assert machine.between_seconds == pytest.approx(180e-6)
    none = verdict("better", "rtt", "rtt", arm_median=60e-6, baseline_median=200e-6)
    with pytest.raises(ImpossibleFigure):
        lab_campaign.machine_of(results(none))


def test_a_benchmark_ends_with_what_its_points_and_failures_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def raising(error: Exception) -> list[Point]:
        raise error

    assert judge(lambda: [Point(True, "flat")]) == 0
    assert judge(lambda: [Point(False, "steep"), Point(True, "flat")]) == 1
    assert judge(lambda: raising(ImpossibleFigure("nothing"))) == 1
    assert judge(lambda: raising(subprocess.CalledProcessError(1, ["python", "-c", "work"]))) == 1
    assert judge(lambda: raising(LabError("no root"))) == 2
    printed = capsys.readouterr()
    assert "FAIL  steep" in printed.out
    assert "no root" in printed.err
