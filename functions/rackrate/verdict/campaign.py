"""The answers of a campaign, when its draws are enough, and its conclusion. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from statistics import geometric_mean, median
from typing import NamedTuple

from rackrate.plan.looks import looks
from rackrate.verdict.draws import (
    LEAST_DRAWS,
    Draw,
    DrawsFinding,
    DrawsQuestion,
    answer_draws,
    has_changed,
)
from rackrate.verdict.enough import reason_to_stop
from rackrate.verdict.estimate import CONFIDENCE, ratios
from rackrate.verdict.headline import headline, kind, sized
from rackrate.verdict.wording import in_one_line, still_open, what_differed, would_settle
from rackrate_contract.arms import in_arm
from rackrate_contract.campaign import BETWEEN_RUNS, Answer, AnswerScope, CampaignStopped, DrawRatio
from rackrate_contract.student import student_t
from rackrate_contract.verdicts import Difference, Verdict
from rackrate_text.grouping import grouped_by
from rackrate_text.units import change, changes, duration, percent
from rackrate_text.words import counted, listed

#: The method in words, for readers of the results. docs/statistics.md gives the reasons.
METHOD = (
    "Each draw gives one ratio of the arms for each metric, as a logarithm. The interval of their"
    " mean and the prediction interval of the next draw are Student's over draws. Better and worse"
    " need an interval beyond the threshold, no meaningful difference one within it, all answers"
    " and looks of a campaign together with an error of 5 % (Holm, Pocock). Student's test gets"
    " half of that error; the rest is for luck that is not normal. The variability between draws is"
    " what the runs' own uncertainty does not explain; its bound is from chi-squared. A trend over"
    " the draws is a slope of more than 1 %, all answers together with 2.5 % false alarms. Draws"
    " without a ratio are left out."
)

#: Runs of one stack that start less than this apart are of the same hours.
_SAME_HOURS = timedelta(hours=12)
#: A longer time is written in days.
_MOST_HOURS = 36
_DRAWS_NAMED = 6
#: The most answers that a sentence names.
_ANSWERS_NAMED = 4


class DrawOfRuns(NamedTuple):
    """A draw: a run, or several runs on the same nodes.

    Attributes:
        run_id: the run's id; those of several runs, separated by commas.
        verdicts: its verdicts of an arm against another.
    """

    run_id: str
    verdicts: Sequence[Verdict]


class RunOnNodes(NamedTuple):
    """A run and its nodes.

    Attributes:
        run_id: its id.
        verdicts: its verdicts of an arm against another.
        nodes: what identifies its nodes, such as their instance ids.
        stack: what identifies its stack; empty if unknown.
        started_at: when it started, ISO 8601, UTC; empty if unknown.
        seconds: how long it took.
    """

    run_id: str
    verdicts: Sequence[Verdict]
    nodes: frozenset[str]
    stack: str = ""
    started_at: str = ""
    seconds: float = 0.0

    @property
    def start(self) -> datetime:
        """When it started."""
        return datetime.fromisoformat(self.started_at).astimezone(UTC)


#: A comparison: test, metric, arm, baseline.
_Key = tuple[str, str, str, str]


def answers_of(
    draws: Sequence[tuple[str, Sequence[Verdict]]],
    *,
    threshold: float,
    least: int,
    most: int,
    since_before: bool = False,
) -> tuple[Answer, ...]:
    """The answers over draws: one for each metric of each arm.

    Args:
        draws: the runs' ids and verdicts, in the order in which they were made; a `DrawOfRuns` for
            each. Runs without verdicts count as draws that are left out.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        least: the fewest draws of the campaign.
        most: the most draws of the campaign; of a pool, its number of draws.
        since_before: whether to test the newest draw against those before it.
    """
    by_draw = [
        (run_id, {_key(verdict): verdict for verdict in verdicts}) for run_id, verdicts in draws
    ]
    # One verdict of each comparison gives what all of them share, such as the unit.
    shared = {key: verdict for _, verdicts in by_draw for key, verdict in verdicts.items()}
    with_ratio = {
        key: [
            (run_id, verdicts[key])
            for run_id, verdicts in by_draw
            if key in verdicts and verdicts[key].ratio is not None
        ]
        for key in shared
    }
    questions = [
        DrawsQuestion([_draw(verdict) for _, verdict in with_ratio[key]], shared[key].better)
        for key in shared
    ]
    findings = answer_draws(questions, threshold=threshold, least=least, most=most)
    changes = has_changed(questions) if since_before else [None] * len(questions)
    return tuple(
        _answer(shared[key], with_ratio[key], finding, threshold, len(draws), changed)
        for key, finding, changed in zip(shared, findings, changes, strict=True)
    )


def draws_of_runs(runs: Sequence[RunOnNodes]) -> list[DrawOfRuns]:
    """The draws of pooled runs, in the order of their first runs; see `why_one_draw`."""
    return [
        DrawOfRuns(BETWEEN_RUNS.join(run.run_id for run in together), _combined(together))
        for together in _together(runs)
    ]


def why_one_draw(runs: Sequence[RunOnNodes]) -> str:
    """Which pooled runs count as one draw, and why.

    Runs on the same nodes say nothing about other placements, and those of one stack in the same
    hours nothing about other hours. From `LEAST_DRAWS` stacks on all runs of a stack count as one,
    so that the stacks are the replicates. Runs that are all of one stack and the same hours count
    by their nodes, as the draws of a campaign do: their claim names that stack and these hours.
    """
    groups = _together(runs)
    hours = f" within {_SAME_HOURS // timedelta(hours=1)} h"
    alike = "of one stack" + ("" if _are_many({run.stack for run in runs}) else hours)
    reasons = []
    for group in groups:
        if len(group) > 1:
            pairs = list(combinations(group, 2))
            shared = sum(bool(one.nodes & other.nodes) for one, other in pairs)
            why = [alike] if not shared else ["on the same nodes"]
            if 0 < shared < len(pairs):
                why.append(alike)
            reasons.append(f"{listed(run.run_id for run in group)} are {listed(why, 'or')}")
    count = f"{counted(len(runs), 'run')} count as {counted(len(groups), 'draw')}"
    return f"{count}: {'; '.join(reasons) or 'no two are on the same nodes'}."


def _together(runs: Sequence[RunOnNodes]) -> list[list[RunOnNodes]]:
    """The runs that count as one draw, in the order of their first runs."""
    many = _are_many({run.stack for run in runs})

    def on_same_nodes(one: RunOnNodes, other: RunOnNodes) -> bool:
        return bool(one.nodes & other.nodes)

    def alike(one: RunOnNodes, other: RunOnNodes) -> bool:
        if on_same_nodes(one, other) or not one.stack or one.stack != other.stack:
            return on_same_nodes(one, other)
        return many or abs(one.start - other.start) < _SAME_HOURS

    groups = _joined(runs, alike)
    return groups if len(groups) > 1 else _joined(runs, on_same_nodes)


def _joined(
    runs: Sequence[RunOnNodes], alike: Callable[[RunOnNodes, RunOnNodes], bool]
) -> list[list[RunOnNodes]]:
    groups: list[list[RunOnNodes]] = []
    for run in runs:
        joined = [group for group in groups if any(alike(run, other) for other in group)]
        if not joined:
            groups.append([run])
            continue
        first, *others = joined
        for other in others:
            first += other
            groups.remove(other)
        first.append(run)
    return groups


def _are_many(stacks: Collection[str]) -> bool:
    return len(stacks) >= LEAST_DRAWS


def placed(answer: Answer, runs: Mapping[str, RunOnNodes], *, pooled: bool) -> Answer:
    """The answer with the times of its draws, and with their time and stacks in its claim.

    Args:
        answer: the answer.
        runs: the runs of its draws, by id.
        pooled: whether the runs are of a pool, so that its stacks are replicates.
    """
    draws = tuple(
        draw.model_copy(update={"started_at": runs[draw.run_ids[0]].started_at})
        for draw in answer.draws
    )
    used = [runs[run_id] for draw in draws for run_id in draw.run_ids]
    if not used:
        return answer
    ends = [run.start + timedelta(seconds=run.seconds) for run in used]
    lasted = max(ends) - min(run.start for run in used)
    hours = lasted / timedelta(hours=1)
    time = f"{hours / 24:.0f} days" if hours > _MOST_HOURS else duration(lasted.total_seconds())
    stacks = {run.stack for run in used}
    scope = answer.scope
    if pooled and scope == "the placement group" and not _are_many(stacks):
        scope = "these stacks"
    days = len({run.start.date() for run in used})
    update = {"draws": draws, "scope": scope, "time": f"in these {time}"}
    dated = answer.model_copy(update=update)
    return dated.model_copy(update={"claim": _claim(dated, stacks=len(stacks), days=days)})


def stop(answers: Sequence[Answer], *, after: int, least: int, most: int) -> CampaignStopped | None:
    """Why to stop after a draw, or None to make another.

    A campaign looks at its answers after some of its draws only (`rackrate.plan.looks`), because
    every further look is a chance of an error. Between looks it goes on.

    Args:
        answers: the answers over the draws so far.
        after: the number of draws so far, also of those without a result.
        least: the fewest draws of the campaign.
        most: the most draws of the campaign.
    """
    if after < most and after not in looks(least, most):
        return None
    if answers:
        reason = reason_to_stop(answers, "answer", unit="draws", measured=after, most=most)
    else:
        reason = ("most", "there is no answer") if after >= most else None
    return reason and CampaignStopped.because(*reason, after=after, most=most, noun="draw")


def conclusion(
    answers: Sequence[Answer],
    *,
    pooled_differences: Sequence[Difference] | None = None,
    pooling: str = "",
) -> str:
    """The answers in sentences.

    Args:
        answers: the answers.
        pooled_differences: what differed between the runs of a pool; None for other campaigns.
        pooling: which runs of a pool count as one draw, and why.
    """
    if not answers:
        return "Nothing can be said: no draw compared an arm with the baseline."
    sentences = []
    if pooled_differences is not None:
        sentences += [what_differed(pooled_differences, (), "between these runs"), pooling]
    sentences += headlines(answers)
    sentences.append(following(answers))
    sentences += still_open(
        (a.name, more_needed(a) or a.reason) for a in answers if not a.is_decided
    )
    sentences.append(_about(answers))
    sentences += [f"{answer.name}: {drift}." for answer in answers for drift in drifts(answer)]
    return " ".join(part for part in sentences if part)


def drifts(answer: Answer) -> Iterator[str]:
    """Why an answer's draws may not be alike."""
    if answer.changed:
        yield "the newest draw is not like those before it"
    if answer.trend is not None:
        moved = f"{change(answer.trend)} from the first draw to the last"
        yield f"the draws have a trend, {moved}, so their average is of their hours only"


def variability(answer: Answer) -> str:
    """How much draws vary, with its bound, such as `8.3 % (at most 21 %)`."""
    most = f"at most {percent(answer.variability_at_most)}"
    return f"{percent(answer.variability)} ({most})" if answer.variability else most


def following(answers: Sequence[Answer]) -> str:
    """What the next deployment will get; empty without an answer about the placement group."""
    predicted = [
        (answer, answer.prediction95)
        for answer in answers
        if answer.prediction95 is not None and answer.scope == "the placement group"
    ]
    if not predicted:
        return ""
    kinds = [kind(answer) for answer, _ in predicted]
    texts = []
    for answer, ends in predicted:
        name = kind(answer) if kinds.count(kind(answer)) == 1 else answer.name
        is_clear = min(ends) > 1 or max(ends) < 1
        texts.append(f"{name} {sized(ends, answer.unit) if is_clear else changes(ends)}")
    places = {in_arm(answer.sides[0]) for answer, _ in predicted}
    place = f" {places.pop()}" if len(places) == 1 else ""
    each = "" if len(texts) == 1 else " each"
    gets = listed(texts, most=_ANSWERS_NAMED)
    return f"Your next deployment{place} gets {gets} (with 95 %{each})."


def line(answer: Answer) -> str:
    """An answer in one line: the subject, the average change, both levels, the word, the next.

    Such as `rtt -85.2 %, 573 → 84.5 µs (95 % CI ...): better, treatment against baseline, ...`.
    """
    over = f" on average over {counted(len(answer.draws), 'draw')}"
    then = ""
    if answer.prediction95 is not None:
        then = f"; next deployment {changes(answer.prediction95)}"
    return in_one_line(answer, heading(answer), more_needed(answer), over=over, then=then)


def heading(answer: Answer) -> str:
    """The two sides of an answer."""
    return " against ".join(answer.sides)


def more_needed(answer: Answer) -> str | None:
    """What would settle an inconclusive answer, or None."""
    if answer.is_decided or not answer.more_draws:
        return None
    return would_settle(answer.more_draws, "draw", are_few=len(answer.draws) < LEAST_DRAWS)


# -- the answers


def _key(verdict: Verdict) -> _Key:
    return verdict.test, verdict.metric, verdict.arm, verdict.baseline.name


def _draw(verdict: Verdict) -> Draw:
    assert verdict.ratio is not None
    return Draw(verdict.ratio, _error(verdict))


def _error(verdict: Verdict) -> float | None:
    """The standard error of the log ratio within its run; None without an interval."""
    if verdict.ci95 is None:
        return None
    low, high = verdict.ci95
    if not 0 < low <= high < math.inf:
        return None
    return math.log(high / low) / 2 / student_t(CONFIDENCE, max(1, verdict.blocks - 1))


def _combined(runs: Sequence[RunOnNodes]) -> list[Verdict]:
    """The verdicts of runs on the same nodes, as those of one run."""
    verdicts = (verdict for run in runs for verdict in run.verdicts)
    return [_mean_verdict(alike) for alike in grouped_by(verdicts, _key).values()]


def _mean_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The geometric mean of verdicts on the same comparison and nodes."""
    with_ratio = [verdict for verdict in verdicts if verdict.ratio is not None]
    if len(with_ratio) < 2:
        return (with_ratio or verdicts)[0]
    number = len(with_ratio)
    level = sum(math.log(v.ratio) for v in with_ratio if v.ratio is not None) / number
    blocks = sum(verdict.blocks for verdict in with_ratio)
    errors = [_error(verdict) for verdict in with_ratio]
    known = [error**2 for error in errors if error is not None]
    ends = None
    if len(known) == number:
        half = student_t(CONFIDENCE, max(1, blocks - 1)) * math.sqrt(sum(known)) / number
        ends = ratios((level - half, level + half))
    return with_ratio[0].model_copy(
        update={
            "ratio": math.exp(level),
            "ci95": ends,
            "blocks": blocks,
            "arm_median": _median(verdict.arm_median for verdict in with_ratio),
            "baseline_median": _median(verdict.baseline_median for verdict in with_ratio),
            "arm_mean": _mean(verdict.arm_mean for verdict in with_ratio),
            "baseline_mean": _mean(verdict.baseline_mean for verdict in with_ratio),
        }
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of values of which none is missing."""
    all_values = list(values)
    known = [value for value in all_values if value]
    return geometric_mean(known) if known and len(known) == len(all_values) else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _answer(
    shared: Verdict,
    draws: Sequence[tuple[str, Verdict]],
    finding: DrawsFinding,
    threshold: float,
    all_draws: int,
    changed: bool | None,
) -> Answer:
    """The answer on one comparison.

    Args:
        shared: one of its verdicts.
        draws: the runs' ids and verdicts with a ratio.
        finding: what the estimator found.
        threshold: see `answers_of`.
        all_draws: how many draws were made.
        changed: whether the newest draw differs from those before.
    """
    scope: AnswerScope = "the placement group" if len(draws) >= LEAST_DRAWS else "these draws"
    left_out = all_draws - len(draws)
    answer = Answer.from_fields(
        finding,
        test=shared.test,
        metric=shared.metric,
        unit=shared.unit,
        better=shared.better,
        arm=shared.arm,
        baseline=shared.baseline.name,
        title=shared.title,
        arm_title=shared.arm_title,
        baseline_title=shared.baseline_title,
        draws=tuple(
            DrawRatio.from_fields(verdict, run_id=run_id)
            for run_id, verdict in draws
            if verdict.ratio is not None
        ),
        left_out=left_out,
        arm_median=_median(verdict.arm_median for _, verdict in draws),
        baseline_median=_median(verdict.baseline_median for _, verdict in draws),
        arm_mean=_mean(v.arm_mean for _, v in draws if v.ratio is not None),
        baseline_mean=_mean(v.baseline_mean for _, v in draws if v.ratio is not None),
        scope=scope,
        claim="",
        threshold=threshold,
        changed=changed,
    )
    return answer.model_copy(update={"claim": _claim(answer)})


def _claim(answer: Answer, *, stacks: int = 0, days: int = 0) -> str:
    """What the answer applies to, how many draws it rests on, and what would let it say more.

    Args:
        answer: the answer, with its time.
        stacks: the number of the draws' stacks; 0 if unknown.
        days: the number of days with draws; 0 if unknown.
    """
    resting = f"it rests on {counted(len(answer.draws), 'draw')}"
    if stacks > 1:
        resting += f" of {stacks} stacks"
    if answer.left_out:
        resting += f"; {counted(answer.left_out, 'draw')} without a ratio left out"
    about = "about the placement group"
    if answer.scope == "these draws":
        about = "about these draws, not about the placement group"
    elif stacks == 1:
        about += " of this stack"
    elif answer.scope == "these stacks":
        about += " of these stacks"
    wider = {"draws on more days": days, "more stacks": stacks}
    lacking = [what for what, number in wider.items() if 0 < number < LEAST_DRAWS]
    if lacking and answer.scope != "these draws":
        resting += f"; {listed(lacking)} would let it say more"
    return f"{about}{f', {answer.time}' if answer.time else ''}: {resting}"


# -- the sentences


def headlines(answers: Sequence[Answer]) -> list[str]:
    """A headline for the answers of each baseline."""
    sentences = []
    for alike in grouped_by(answers, lambda answer: answer.baseline).values():
        most = max(len(answer.draws) for answer in alike)
        over = f"on average over {counted(most, 'draw')}" if most else "without a draw"
        if time := max(alike, key=lambda answer: len(answer.draws)).time:
            over += f" {time}"
        sentences.append(headline(over, alike))
    return sentences


def _about(answers: Sequence[Answer]) -> str:
    """What the answers are about, and how much draws vary."""
    few = [answer for answer in answers if answer.scope == "these draws"]
    if few:
        these = "This" if len(few) == len(answers) else "What has fewer draws"
        about = (
            f"{these} is about these nodes; an answer about the placement group needs"
            f" {LEAST_DRAWS} draws."
        )
    else:
        claims = dict.fromkeys(answer.claim for answer in answers)
        about = " ".join(f"This is {claim}." for claim in claims)
    varying = [
        f"{variability(answer)} in {answer.name}"
        for answer in answers
        if answer.variability is not None and len(answer.draws) >= LEAST_DRAWS
    ]
    if varying:
        about += f" From draw to draw the change varies by {listed(varying, most=_DRAWS_NAMED)}."
    return about
