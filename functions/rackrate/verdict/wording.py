"""The wording of verdicts, marks, differences and lost trials. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rackrate.measure.trials import TrialState
from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.verdict.headline import headline
from rackrate_contract.arms import Arm, arm_titles, in_arm
from rackrate_contract.campaign import Answer
from rackrate_contract.trials import Mark, TrialKey
from rackrate_contract.verdicts import Baseline, Difference, Pairs, Steadiness, Summary, Verdict
from rackrate_text.failures import Loss, grouped, place
from rackrate_text.grouping import grouped_by
from rackrate_text.units import change, changes, duration, moment, percent, quantity, shift
from rackrate_text.words import (
    capitalized,
    counted,
    listed,
    metric_of_test,
    names_by_reason,
    several_runs,
)

_REASONS_SHOWN = 3
_MOST_IN_BRIEF = 3
#: How many medians the conclusion of a run with one arm names. The page has all.
_MOST_LEVELS = 6
#: The cause of trials of which nothing is stored.
NEVER_RAN = "never ran"
#: How many differences between runs a sentence names. The page lists all.
_DIFFERENCES_SHOWN = 6

#: The meaning of each mark, which follows "5 of 36 trials". An unknown mark is quoted by name.
MARKS = {
    "client_cpu": "may have been limited by the client's CPU",
    "server_cpu": "may have been limited by the server's CPU",
    "clock": "have doubtful times: a clock was set, or clocks disagree",
    "burst_drop_in_trial": "fell to what the instance sustains while they ran: its burst was over",
    "burst_drop_across_blocks": "ran after the burst of their instance was over",
    "repeated": "were repeated later, together with those of the other arms",
    "repeated_alone": "were repeated later without those of the other arms",
    "ena_allowance": "ran on a node whose network card exceeded an allowance",
    "ena_express_unused": "ran on a node that had ENA Express and did not use it",
    "few_connections": "ran on a node for which EC2 could track few more connections",
}
_MANY_TIMES = 10
#: The conclusion mentions a mark if at least this share of the measured trials has it.
MANY_MARKED = 0.1


def sentence(
    verdicts: Sequence[Verdict],
    regressions: Sequence[Verdict] = (),
    *,
    summaries: Sequence[Summary] = (),
    arms: Iterable[Arm] = (),
    marks: Sequence[Mark] = (),
    measured: int = 0,
    differences: Sequence[Difference] | None = None,
) -> str:
    """The conclusion of a run: its headlines, then what is open, and the qualifications.

    Args:
        verdicts: each arm against the baseline.
        regressions: each arm against itself in earlier runs.
        summaries: the arms' values, which are the conclusion of a run with one arm.
        arms: the run's arms.
        marks: the marks of the trials.
        measured: number of measured trials.
        differences: the differences between the run and earlier runs, or None without one.
    """
    if not verdicts and not regressions:
        titles = arm_titles(arms)
        if len(titles) == 1 and (medians := _medians(summaries)):
            (title,) = titles.values()
            qualified = " ".join(mark_notes(marks, measured, least_share=MANY_MARKED))
            return f"{capitalized(in_arm(title))}: {medians}. {qualified}".rstrip()
        return "Nothing can be said: no arm could be compared with the baseline."
    # A gate asks what changed since then.
    every = [*regressions, *verdicts]
    parts = [*headlines(every), scopes(verdicts)]
    if regressions and differences is not None:
        earlier = _earlier(regressions[0].baseline)
        parts.append(what_differed(differences, regressions, f"since {earlier}"))
    parts += still_open((v.name, more_needed(v) or v.reason) for v in every if not v.is_decided)
    parts += [_explained_by_limits(verdicts)]
    parts += [_steadiness(verdict) for verdict in every]
    parts += drifts(verdicts)
    parts += mark_notes(marks, measured, least_share=MANY_MARKED)
    return " ".join(part for part in parts if part)


def _medians(summaries: Iterable[Summary]) -> str:
    """The medians of an arm, such as `tcp-1 throughput 9.5 Gb/s and rtt 98 µs at the median`."""
    parts = [
        f"{metric_of_test(each.test, each.metric)} {quantity(each.median, each.unit)}"
        for each in summaries
        if each.median is not None
    ]
    return f"{listed(parts, most=_MOST_LEVELS)} at the median" if parts else ""


def drifts(verdicts: Iterable[Verdict]) -> list[str]:
    """A sentence on each drift of one arm alone."""
    return [f"{verdict.name}: {verdict.drift}." for verdict in verdicts if verdict.drift]


def mark_notes(marks: Sequence[Mark], measured: int, *, least_share: float = 0.0) -> list[str]:
    """A sentence for each mark that at least this share of the measured trials has.

    Returns:
        Sentences such as `12 of 36 trials were limited by the client's CPU.`, most frequent first.
    """
    marked: dict[str, set[TrialKey]] = {}
    for mark in marks:
        marked.setdefault(mark.mark, set()).add(mark.key)
    notes = []
    for name, trials in sorted(marked.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        if len(trials) < least_share * measured:
            continue
        words = meaning(name, singular=len(trials) == 1)
        notes.append(f"{len(trials)} of {counted(measured, 'trial')} {words}.")
    return notes


def meaning(mark: str, *, singular: bool) -> str:
    """The meaning of a mark, which follows `1 trial` or `2 trials`."""
    words = MARKS.get(mark, f"bear the mark {mark}")
    if not singular:
        return words
    verb, _, rest = words.partition(" ")
    verb = {"have": "has", "bear": "bears"}.get(verb, verb)
    return f"{verb} {rest}".replace(" they ", " it ").replace(" their ", " its ")


def headlines(verdicts: Sequence[Verdict]) -> list[str]:
    """The headlines: one for the verdicts between arms, and one for those against earlier runs."""
    by_time = grouped_by(verdicts, lambda v: _against(v) if v.baseline.is_earlier_run else "")
    return [headline(then, alike) for then, alike in by_time.items()]


def _against(verdict: Verdict) -> str:
    if verdict.baseline.is_earlier_run:
        return f"since {_earlier(verdict.baseline)}"
    return f"against {verdict.sides[1]}"


def heading(verdict: Verdict) -> str:
    """The two sides of a verdict: two arms, or an arm now and in earlier runs."""
    return f"{verdict.sides[0]} {_against(verdict)}"


def _earlier(baseline: Baseline) -> str:
    """The earlier runs of a verdict; one without a double `run` if its id begins so."""
    if len(baseline.runs) > 1:
        return several_runs(baseline.name, len(baseline.runs))
    return baseline.name if baseline.name.startswith("run") else baseline.written()


def continued(before: int, planned: int, time: str) -> str:
    """That a run went on after its end.

    Args:
        before: how many trials it had measured before.
        planned: how many it planned.
        time: when it went on, ISO 8601.
    """
    return (
        f"the run had ended and was continued at {moment(time)}: {before} of"
        f" {counted(planned, 'trial')} were measured before, on the same nodes"
    )


def name_of_runs(run_ids: Sequence[str], baseline: str | None) -> str:
    """The name of earlier runs: one run's id, their baseline's name, or such as `4 runs`.

    Args:
        run_ids: the runs' ids.
        baseline: the name of the baseline that stood for them, or None.
    """
    if len(run_ids) == 1:
        return run_ids[0]
    return baseline or counted(len(run_ids), "run")


def what_differed(
    differences: Sequence[Difference], verdicts: Sequence[Verdict], between: str
) -> str:
    """A sentence on the differences between runs, to precede their verdicts.

    Args:
        differences: the differences.
        verdicts: the verdicts between the runs.
        between: the phrase for the runs, such as `since run-1`.
    """
    if not differences:
        nothing = f"{capitalized(between)}, nothing that rackrate records differed"
        if not any(verdict.verdict in ("better", "worse") for verdict in verdicts):
            return f"{nothing}."
        return f"{nothing}, so what made the difference is something it does not see."
    shown = [
        f"{each.what} ({each.run}{'; there' if each.varies else ' instead of'} {each.other})"
        for each in differences[:_DIFFERENCES_SHOWN]
    ]
    if (more := len(differences) - len(shown)) > 0:
        shown.append(f"and {more} more")
    return f"What differed {between}: {'; '.join(shown)}."


def in_brief(conclusion: str, scale: float | None) -> str:
    """A conclusion in at most three sentences, for a place with a line for each comparison.

    Args:
        conclusion: the conclusion, whose first sentences say the most.
        scale: the scale of a lab's network, which is one of the sentences; None on AWS.
    """
    # No sentence has a period before a space, because the reasons in it have none.
    sentences = re.split(r"(?<=\.) ", conclusion)
    if scale is not None:
        network = f"Network scaled by {scale:g}: figures are not EC2's."
        sentences = [*sentences[: _MOST_IN_BRIEF - 1], network]
    return " ".join(sentences[:_MOST_IN_BRIEF])


def line(verdict: Verdict) -> str:
    """A verdict in one line: the subject, the change, both levels, the word and the two sides.

    Such as `rtt -85.2 %, 573 → 84.5 µs (95 % CI ...): better, treatment against baseline`.
    """
    return in_one_line(verdict, heading(verdict), more_needed(verdict))


def in_one_line(
    of: Verdict | Answer, sides: str, needed: str | None, *, over: str = "", then: str = ""
) -> str:
    """A comparison in one line: its figures, its verdict between `sides`, and what is open.

    Args:
        of: the comparison.
        sides: what is compared with what.
        needed: what would settle it; without it the line ends with the reason.
        over: what stands behind the change.
        then: what stands behind the sides.
    """
    text = of.name
    if of.ratio is not None:
        text += f" {change(of.ratio)}{over}"
    if (medians := levels(of)) is not None:
        text += f", {medians}"
    if (ends := of.shown_interval) is not None:
        text += f" (95 % CI {changes(ends)})"
    text += f": {of.verdict}, {sides}{then}"
    because = needed or of.reason
    return f"{text}: {because}" if because and not of.is_decided else text


def levels(of: Verdict | Answer) -> str | None:
    """The levels of the baseline and of the arm, such as `573 → 84.5 µs`; None without one."""
    arm, baseline = of.levels
    return None if arm is None or baseline is None else shift(baseline, arm, of.unit)


def scopes(verdicts: Iterable[Verdict]) -> str:
    """What verdicts of one run apply to, such as `This is about these nodes in 56 s.`"""
    by_claim = grouped_by((v for v in verdicts if v.scope != "this run"), _claim)
    if len(by_claim) < 2:
        return "".join(f"This is about {claim}." for claim in by_claim)
    parts = [
        f"{claim} ({listed((v.name for v in alike), most=3)})" for claim, alike in by_claim.items()
    ]
    return f"This is about {listed(parts)}."


def _claim(verdict: Verdict) -> str:
    span = verdict.span_seconds
    time = "" if span is None else f" in {duration(span)}"
    pairs = "" if verdict.scope == "these nodes" else f", from {_pairs_of(verdict.pairs)}"
    return f"{verdict.scope}{time}{pairs}"


def _pairs_of(pairs: Pairs) -> str:
    """The number of measured pairs of nodes, such as `6 pairs an arm`."""
    if pairs.arm == pairs.baseline:
        return f"{counted(pairs.arm, 'pair')} an arm"
    return f"{pairs.arm} and {counted(pairs.baseline, 'pair')}"


def still_open(items: Iterable[tuple[str, str | None]]) -> list[str]:
    """A sentence for each thing that open comparisons lack, with their subjects.

    Args:
        items: the subjects, each with what would settle it, or why it is inconclusive.
    """
    return [f"{listed(names)}: {because}." for because, names in names_by_reason(items).items()]


def _explained_by_limits(verdicts: Sequence[Verdict]) -> str:
    """A sentence on the decided verdicts that documented limits explain."""
    names = [
        f"{verdict.name} ({verdict.ceiling.name})"
        for verdict in verdicts
        if verdict.is_decided and verdict.ceiling is not None and verdict.ceiling.explains
    ]
    return f"EC2's documented limits explain {listed(dict.fromkeys(names))}." if names else ""


def _steadiness(verdict: Verdict) -> str:
    """How the arm's variability compares with the baseline's, if they differ."""
    steadiness = verdict.steadiness
    words = {"better": "steadier", "worse": "less steady"}
    if steadiness is None or (word := words.get(steadiness.verdict)) is None:
        return ""
    figures = f", {_varies(steadiness)}" if steadiness.ratio is not None else ""
    return f"{verdict.name}: {verdict.sides[0]} is {word}{figures}."


def _varies(steadiness: Steadiness) -> str:
    """How the CV changed; both if it is so many times the other that a change in % says little."""
    ratio = steadiness.ratio or 1.0
    if 1 / _MANY_TIMES <= ratio <= _MANY_TIMES:
        return f"variability {change(ratio)}"
    verb = "rose" if ratio > 1 else "fell"
    before, after = percent(steadiness.baseline), percent(steadiness.arm)
    return f"the CV {verb} from {before.removesuffix(' %')} to {after}"


def more_needed(verdict: Verdict) -> str | None:
    """What would settle an inconclusive verdict, or None."""
    if verdict.is_decided:
        return None
    if more := verdict.more_blocks:
        return would_settle(more, "block", are_few=verdict.blocks < LEAST_BLOCKS)
    if more := verdict.more_runs:
        verb = "is" if more == 1 else "are"
        return f"{counted(more, 'more earlier run')} {verb} needed"
    return None


def would_settle(more: int, noun: str, *, are_few: bool) -> str:
    """How many more settle a comparison: a least number if they are too few for an estimate."""
    if are_few:
        verb = "is" if more == 1 else "are"
        return f"at least {counted(more, f'more {noun}')} {verb} needed"
    return f"about {counted(more, f'more {noun}')} would settle it"


def losses(
    trials: Iterable[tuple[TrialKey, TrialState | None]],
    arms: Iterable[Arm],
    *,
    never_ran: int = 0,
) -> list[Loss]:
    """The causes of lost trials, the most frequent first.

    Args:
        trials: the lost trials by their keys; None for one that never ran.
        arms: the run's arms, whose titles the places have.
        never_ran: how many others never ran.
    """
    titles = arm_titles(arms)
    reasons = [
        (NEVER_RAN, "")
        if state is None
        else (state.reason or NEVER_RAN, place(titles[key.arm], key.client, key.server))
        for key, state in trials
    ]
    return grouped([*reasons, *[(NEVER_RAN, "")] * never_ran])


def loss(causes: Sequence[Loss], *, planned: int) -> str:
    """A message on lost trials with the most frequent causes."""
    lost = sum(cause.count for cause in causes)
    parts = [cause.of_trials for cause in causes[:_REASONS_SHOWN]]
    if others := sum(cause.count for cause in causes[_REASONS_SHOWN:]):
        parts.append(f"{counted(others, 'trial')}: other reasons, which the report lists")
    return f"{lost} of {planned} trials were lost: {'; '.join(parts)}"
