"""The answers of a campaign, when its draws are enough, and its conclusion. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal, NamedTuple

from rackrate.plan.looks import looks
from rackrate.verdict.answers import (
    BETWEEN_RUNS,
    Answer,
    AnswerScope,
    CampaignStopped,
    DrawRatio,
)
from rackrate.verdict.draws import (
    LEAST_DRAWS,
    Draw,
    DrawsFinding,
    DrawsQuestion,
    answer_draws,
    has_changed,
)
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.estimate import CONFIDENCE, ratios
from rackrate.verdict.headline import headline
from rackrate.verdict.model import Difference, Verdict
from rackrate.verdict.student import student_t
from rackrate.verdict.wording import levels, still_open, what_differed
from rackrate_text.units import change, changes, percent
from rackrate_text.words import counted, listed, metric_of_test

#: The method in words, for readers of the results. docs/statistics.md gives the reasons.
METHOD = (
    "Each draw gives one ratio of the arms for each metric, as a logarithm. The interval of their"
    " mean and the prediction interval of the next draw are Student's over draws. Better and worse"
    " need an interval beyond the threshold, no meaningful difference one within it, all answers"
    " and looks of a campaign together with an error of 5 % (Holm, Pocock). Student's test gets"
    " half of that error; the rest is for luck that is not normal. The variability between draws is"
    " what the runs' own uncertainty does not explain. Draws without a ratio are left out."
)

#: The fact that always differs between draws.
_NODES = "nodes"
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
        nodes: what tells its nodes from all others, such as their instance ids.
    """

    run_id: str
    verdicts: Sequence[Verdict]
    nodes: frozenset[str]


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
    by_draw = [(run_id, {_key(verdict): verdict for verdict in told}) for run_id, told in draws]
    # One verdict of each comparison gives what all of them share, such as the unit.
    shared = {key: verdict for _, told in by_draw for key, verdict in told.items()}
    found = {
        key: [
            (run_id, told[key])
            for run_id, told in by_draw
            if key in told and told[key].ratio is not None
        ]
        for key in shared
    }
    questions = [
        DrawsQuestion([_draw(verdict) for _, verdict in found[key]], shared[key].better)
        for key in shared
    ]
    findings = answer_draws(questions, threshold=threshold, least=least, most=most)
    changes = has_changed(questions) if since_before else [None] * len(questions)
    return tuple(
        _answer(shared[key], found[key], finding, threshold, len(draws), changed)
        for key, finding, changed in zip(shared, findings, changes, strict=True)
    )


def draws_of_runs(runs: Sequence[RunOnNodes]) -> list[DrawOfRuns]:
    """The draws of pooled runs: runs that share a node are one draw.

    Runs on the same nodes tell nothing of other placements, so the mean of their ratios counts
    once. Two draws may not share a node either, because its place is the same in both.

    Returns:
        The draws, in the order of their first runs.
    """
    groups: list[tuple[set[str], list[RunOnNodes]]] = []
    for run in runs:
        joined = [group for group in groups if group[0] & run.nodes]
        if not joined:
            groups.append((set(run.nodes), [run]))
            continue
        first, *others = joined
        for other in others:
            first[0].update(other[0])
            first[1].extend(other[1])
            groups.remove(other)
        first[0].update(run.nodes)
        first[1].append(run)
    return [
        DrawOfRuns(BETWEEN_RUNS.join(run.run_id for run in together), _combined(together))
        for _, together in groups
    ]


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
    still_open = [answer for answer in answers if not answer.is_decided]
    of_answers = f"{len(still_open)} of {counted(len(answers), 'answer')}"
    not_settled = f"{of_answers} {'is' if len(still_open) == 1 else 'are'} not settled"
    why: Literal["settled", "no prospect", "most"]
    if answers and not still_open:
        why, because = "settled", "every answer is settled"
    elif after >= most:
        why, because = "most", not_settled if answers else "there is no answer"
    elif answers and not any(_may_be_settled(answer, most) for answer in still_open):
        why, because = "no prospect", f"{not_settled}, and more draws would hardly change that"
    else:
        return None
    return CampaignStopped(
        after=after,
        most=most,
        why=why,
        text=f"Stopped after {after} of at most {most} draws: {because}.",
    )


def conclusion(
    answers: Sequence[Answer], *, pooled_differences: Sequence[Difference] | None = None
) -> str:
    """The answers in sentences.

    Args:
        answers: the answers.
        pooled_differences: what differed between the runs of a pool; None for other campaigns.
    """
    if not answers:
        return "Nothing can be said: no draw compared an arm with the baseline."
    said = []
    if pooled_differences is not None:
        others = [each for each in pooled_differences if each.what.split(" of ")[0] != _NODES]
        said.append(what_differed(others, (), "between these runs"))
    said += headlines(answers)
    said.append(following(answers))
    said += still_open(
        (subject(a), more_needed(a) or a.reason) for a in answers if not a.is_decided
    )
    said.append(_about(answers))
    said += [
        f"{subject(answer)}: the newest draw is not like those before it."
        for answer in answers
        if answer.changed
    ]
    return " ".join(part for part in said if part)


def following(answers: Sequence[Answer]) -> str:
    """What the next deployment will get; empty without an answer about the placement group."""
    told = [
        f"{changes(answer.prediction95)} in {subject(answer)}"
        for answer in answers
        if answer.prediction95 is not None and answer.scope == "the placement group"
    ]
    if not told:
        return ""
    return f"Your next deployment will get {listed(told, most=_ANSWERS_NAMED)} (95 % prediction)."


def line(answer: Answer) -> str:
    """An answer in one line: the subject, the average change, both medians, the word, the next.

    Such as `rtt -85.2 %, 573 → 84.5 µs (95 % CI ...): better, treatment against baseline, ...`.
    """
    said = subject(answer)
    if answer.ratio is not None:
        said += f" {change(answer.ratio)} on average over {counted(len(answer.draws), 'draw')}"
    if (medians := levels(answer)) is not None:
        said += f", {medians}"
    if answer.shown_interval is not None:
        said += f" (95 % CI {changes(answer.shown_interval)})"
    said += f": {answer.verdict}, {answer.arm} against {answer.baseline}"
    if answer.prediction95 is not None:
        said += f"; next deployment {changes(answer.prediction95)}"
    because = more_needed(answer) or answer.reason
    return f"{said}: {because}" if because and not answer.is_decided else said


def subject(answer: Answer) -> str:
    """The test and the metric of an answer."""
    return metric_of_test(answer.test, answer.metric)


def more_needed(answer: Answer) -> str | None:
    """What would settle an inconclusive answer, or None."""
    if answer.is_decided or not answer.more_draws:
        return None
    if len(answer.draws) < LEAST_DRAWS:
        verb = "is" if answer.more_draws == 1 else "are"
        return f"at least {counted(answer.more_draws, 'more draw')} {verb} needed"
    return f"about {counted(answer.more_draws, 'more draw')} would settle it"


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
    found: dict[_Key, list[Verdict]] = {}
    for run in runs:
        for verdict in run.verdicts:
            found.setdefault(_key(verdict), []).append(verdict)
    return [_mean_verdict(alike) for alike in found.values()]


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
        }
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _answer(
    shared: Verdict,
    draws: Sequence[tuple[str, Verdict]],
    found: DrawsFinding,
    threshold: float,
    made: int,
    changed: bool | None,
) -> Answer:
    """The answer on one comparison.

    Args:
        shared: one of its verdicts.
        draws: the runs' ids and verdicts with a ratio.
        found: what the estimator found.
        threshold: see `answers_of`.
        made: how many draws were made.
        changed: whether the newest draw differs from those before.
    """
    scope: AnswerScope = "the placement group" if len(draws) >= LEAST_DRAWS else "these draws"
    left_out = made - len(draws)
    return Answer(
        test=shared.test,
        metric=shared.metric,
        unit=shared.unit,
        better=shared.better,
        arm=shared.arm,
        baseline=shared.baseline.name,
        draws=tuple(
            DrawRatio(
                run_id=run_id,
                ratio=verdict.ratio,
                ci95=verdict.ci95,
                arm_median=verdict.arm_median,
                baseline_median=verdict.baseline_median,
            )
            for run_id, verdict in draws
            if verdict.ratio is not None
        ),
        left_out=left_out,
        arm_median=_median(verdict.arm_median for _, verdict in draws),
        baseline_median=_median(verdict.baseline_median for _, verdict in draws),
        ratio=found.ratio,
        ci95=found.ci95,
        ci_simultaneous=found.ci_simultaneous,
        confidence_simultaneous=found.confidence_simultaneous,
        prediction95=found.prediction95,
        variability=found.variability,
        verdict=found.verdict,
        reason=found.reason,
        scope=scope,
        claim=_claim(scope, len(draws), left_out),
        more_draws=found.more_draws,
        prospect=found.prospect,
        threshold=threshold,
        changed=changed,
    )


def _claim(scope: AnswerScope, draws: int, left_out: int) -> str:
    """What the answer applies to, and how many draws it rests on."""
    resting = f"it rests on {counted(draws, 'draw')}"
    if left_out:
        resting += f"; {counted(left_out, 'draw')} without a ratio left out"
    if scope == "these draws":
        return f"about these draws, not about the placement group: {resting}"
    return f"about the placement group: {resting}"


# -- the sentences


def _may_be_settled(answer: Answer, most: int) -> bool:
    """Whether the draws that are left may settle an open answer."""
    if answer.prospect is not None:
        return answer.prospect > LEAST_PROSPECT
    # With too few draws for any answer, nothing is known of its prospect.
    return answer.more_draws is not None and len(answer.draws) + answer.more_draws <= most


def headlines(answers: Sequence[Answer]) -> list[str]:
    """A headline for the answers of each baseline."""
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.baseline, []).append(answer)
    said = []
    for baseline, alike in found.items():
        most = max(len(answer.draws) for answer in alike)
        over = f"on average over {counted(most, 'draw')}" if most else "without a draw"
        said.append(headline(f"{over}, against {baseline}", alike))
    return said


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
        about = "This is about the placement group, not only about these nodes."
    varying = [
        f"{percent(answer.variability)} in {subject(answer)}"
        for answer in answers
        if answer.variability is not None and len(answer.draws) >= LEAST_DRAWS
    ]
    if varying:
        about += f" From draw to draw the change varies by {listed(varying, most=_DRAWS_NAMED)}."
    return about
