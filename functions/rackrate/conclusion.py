"""What a run found, in words and in its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rackrate.plan_fields import LEAST_BLOCKS

Json = Mapping[str, Any]

#: How a run may end for which the benchmark answers. That a plan was refused, only checked, or
#: stopped by a person is neither.
GOOD = frozenset({"succeeded", "degraded"})
BAD = frozenset({"failed", "timed_out"})

_REASONS_SHOWN = 3
#: Of what differed between two runs; the page has it all.
_DIFFERENCES_SHOWN = 6

#: A ratio beyond this is not told: nothing that is measured differs so much.
_MOST_TIMES = 1000

#: What a mark says of a trial, after "5 of 36 trials". A mark of another name is quoted.
MARKS = {
    "client_cpu": "may have been limited by the client's CPU",
    "server_cpu": "may have been limited by the server's CPU",
    "clock": "have doubtful times: a clock was set, or clocks disagree",
    "burst_drop_in_trial": "fell to what the instance sustains while they ran: its burst was over",
    "burst_drop_across_blocks": "ran after the burst of their instance was over",
    "repeated": "were repeated at the end of the run, when their blocks were over",
    "ena_allowance": "ran on a node whose network card exceeded an allowance",
}
#: From this share of the measured trials on, a mark is part of the conclusion.
MANY_MARKED = 0.1


def status_of(failure: Json | None, *, lost: int) -> str:
    """How a run that came to its end ended.

    Args:
        failure: Step Functions' `Error` and `Cause`, or None.
        lost: how many trials were not measured.
    """
    if failure is not None:
        return "invalid" if failure.get("Error") == "InvalidPlan" else "failed"
    return "degraded" if lost else "succeeded"


def sentence(
    verdicts: Sequence[Json],
    regressions: Sequence[Json] = (),
    *,
    marks: Sequence[Json] = (),
    measured: int = 0,
    differences: Sequence[Json] | None = None,
) -> str:
    """The conclusion of a run in a few sentences: one for each comparison, then what qualifies it.

    Args:
        verdicts: as in analysis.json.
        regressions: the same, against an earlier run.
        marks: the marks of trials, as in analysis.json.
        measured: how many trials were measured.
        differences: what differed between the run and the earlier one, or None when nobody looked.
    """
    if not verdicts and not regressions:
        return "Nothing can be said: no arm could be compared with the baseline."
    said = _comparisons(verdicts)
    if regressions and differences is not None:
        earlier = _earlier(str(regressions[0]["baseline"]))
        said.append(what_differed(differences, regressions, f"since {earlier}"))
    said += _comparisons(regressions)
    said.append(_about_intervals([*verdicts, *regressions]))
    said += mark_notes(marks, measured, least_share=MANY_MARKED)
    return " ".join(part for part in said if part)


def mark_notes(marks: Sequence[Json], measured: int, *, least_share: float = 0.0) -> list[str]:
    """A sentence for each kind of mark that at least this share of the measured trials bears.

    Returns:
        Such as `12 of 36 trials were limited by the client's CPU.`, the commonest mark first.
    """
    marked: dict[str, set[tuple[Any, ...]]] = {}
    for mark in marks:
        trial = tuple(mark.get(field) for field in ("block", "arm", "test", "client", "server"))
        marked.setdefault(str(mark["mark"]), set()).add(trial)
    notes = []
    for name, trials in sorted(marked.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        if len(trials) < least_share * measured:
            continue
        said = meaning(name, singular=len(trials) == 1)
        notes.append(f"{len(trials)} of {_count(measured, 'trial')} {said}.")
    return notes


def meaning(mark: str, *, singular: bool) -> str:
    """What a mark says, to follow `1 trial` or `2 trials`."""
    found = MARKS.get(mark, f"bear the mark {mark}")
    if not singular:
        return found
    verb, _, rest = found.partition(" ")
    verb = {"have": "has", "bear": "bears"}.get(verb, verb)
    return f"{verb} {rest}".replace(" they ", " it ").replace(" their ", " its ")


def _comparisons(verdicts: Sequence[Json]) -> list[str]:
    """One sentence for each pair of arms and claim, in the order of the verdicts."""
    found: dict[tuple[str, str], list[Json]] = {}
    for verdict in verdicts:
        found.setdefault((heading(verdict), _claim(verdict)), []).append(verdict)
    return [
        f"{compared}{claim}: {'; '.join(_findings(alike))}."
        for (compared, claim), alike in found.items()
    ]


def heading(verdict: Json) -> str:
    """What is compared with what: two arms, or an arm with itself in an earlier run."""
    baseline = str(verdict["baseline"])
    if baseline.startswith("run "):
        return f"{verdict['arm']} since {_earlier(baseline)}"
    return f"{verdict['arm']} against {baseline}"


def _earlier(baseline: str) -> str:
    """The earlier run of a verdict; most ids begin with the word `run` themselves."""
    name = baseline.removeprefix("run ")
    return name if name.startswith("run") else baseline


def what_differed(differences: Sequence[Json], verdicts: Sequence[Json], between: str) -> str:
    """A sentence on what differed between two runs, to stand before what it did.

    Args:
        differences: each with `what`, its value in the one run (`run`) and the other one (`with`).
        verdicts: the verdicts between the two.
        between: the runs, such as `since run-1`.
    """
    if not differences:
        nothing = f"{between[:1].upper()}{between[1:]}, nothing that rackrate records differed"
        if not any(verdict["verdict"] in ("better", "worse") for verdict in verdicts):
            return f"{nothing}."
        return f"{nothing}, so what made the difference is something it does not see."
    shown = [
        f"{difference['what']} ({difference['run']} instead of {difference['with']})"
        for difference in differences[:_DIFFERENCES_SHOWN]
    ]
    if (more := len(differences) - len(shown)) > 0:
        shown.append(f"and {more} more")
    return f"What differed {between}: {'; '.join(shown)}."


def with_scale(said: str, scale: float | None) -> str:
    """A conclusion with the scale of a lab's network, where no page shows it beside."""
    if scale is None:
        return said
    return f"{said} The network of these nodes is scaled by {scale:g} on purpose."


def line(verdict: Json) -> str:
    """A verdict in one line, such as `treatment against baseline: rtt is better, 0.80 times`."""
    return f"{heading(verdict)}: {_finding(verdict)}"


def _claim(verdict: Json) -> str:
    """What the verdict may be said of, with a comma before it."""
    scope = verdict.get("scope")
    if scope == "the placement":
        return f", for the placement, from {pairs_of(verdict.get('pairs') or {})}"
    return f", on {scope}" if scope else ""


def pairs_of(pairs: Json) -> str:
    """How many pairs of nodes were measured, such as `6 pairs an arm`."""
    arm, baseline = pairs.get("arm"), pairs.get("baseline")
    if arm is None or baseline is None:
        return "several pairs an arm"
    if arm == baseline:
        return f"{_count(arm, 'pair')} an arm"
    return f"{arm} and {_count(baseline, 'pair')}"


def _findings(verdicts: Sequence[Json]) -> list[str]:
    findings = [_finding(verdict) for verdict in verdicts]
    return findings + [said for verdict in verdicts if (said := _steadiness(verdict))]


def _finding(verdict: Json) -> str:
    figures = _figures(verdict["ratio"], interval_of(verdict))
    verb = "shows" if verdict["verdict"] == "no meaningful difference" else "is"
    said = f"{subject(verdict)} {verb} {verdict['verdict']}"
    if figures:
        said += f", {figures}"
    decided = verdict["verdict"] != "inconclusive"
    if decided and (ceiling := verdict.get("ceiling")) and ceiling.get("explains"):
        said += f", as the documented limits explain ({ceiling['name']})"
    # What would settle it says more than why it is open.
    because = more_needed(verdict) or verdict["reason"]
    return f"{said}: {because}" if because else said


def _steadiness(verdict: Json) -> str | None:
    """How steady the arm is compared with the baseline, if they differ."""
    steadiness = verdict.get("steadiness") or {}
    words = {"better": "steadier", "worse": "less steady"}
    word = words.get(steadiness.get("verdict", ""))
    if word is None:
        return None
    interval = steadiness.get("ci95")
    figures = _figures(steadiness.get("ratio"), interval)
    than = f", spread {figures}" if figures else ""
    return f"{subject(verdict)} is {word}{than}"


def subject(verdict: Json) -> str:
    """The test and the metric, once where they have one name."""
    test, metric = verdict["test"], verdict["metric"]
    return str(test) if test == metric else f"{test} {metric}"


def interval_of(verdict: Json) -> Sequence[float] | None:
    """The interval that decides the verdict: the simultaneous one where there is one."""
    interval: Sequence[float] | None = verdict.get("ci_simultaneous") or verdict.get("ci95")
    return interval


def more_needed(verdict: Json) -> str | None:
    """What would settle an inconclusive verdict, or None."""
    if verdict["verdict"] != "inconclusive":
        return None
    if more := verdict.get("more_blocks"):
        if (verdict.get("blocks") or 0) < LEAST_BLOCKS:
            verb = "is" if more == 1 else "are"
            return f"at least {_count(more, 'more block')} {verb} needed"
        return f"about {_count(more, 'more block')} would settle it"
    if more := verdict.get("more_pairs"):
        return f"about {_count(more, 'more pair')} of nodes in each arm would settle it"
    return None


def _figures(ratio: float | None, interval: Sequence[float] | None) -> str:
    if ratio is None:
        return ""
    if interval is None:
        return f"{_bounded(ratio)} times"
    return f"{_bounded(ratio)} times ({_bounded(interval[0])} to {_bounded(interval[1])})"


def _bounded(ratio: float) -> str:
    """A ratio to two decimals; of one that says nothing, only that it is beyond what is said.

    Two blocks can leave an interval that reaches over hundreds of powers of ten.
    """
    if 0 < ratio < 0.005:
        return "less than 0.01"
    return f"{ratio:.2f}" if ratio <= _MOST_TIMES else f"more than {_MOST_TIMES}"


def _about_intervals(verdicts: Sequence[Json]) -> str:
    """What the intervals in brackets are."""
    if not any(interval_of(verdict) for verdict in verdicts):
        return ""
    if not any(verdict.get("ci_simultaneous") for verdict in verdicts) or len(verdicts) == 1:
        return "In brackets: 95 % intervals."
    # Each of the two families of verdicts is corrected for itself.
    earlier = [str(verdict["baseline"]).startswith("run ") for verdict in verdicts]
    apart = ", and likewise for all against the earlier run"
    return (
        "In brackets: intervals that hold for all verdicts at once with 95 %"
        f"{apart if len(set(earlier)) == 2 else ''}."
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def loss(missing: Iterable[Json], *, lost: int, planned: int) -> str:
    """Why trials were lost: the commonest reasons."""
    counted = Counter(trial.get("reason", "never ran") for trial in missing)
    reasons = "; ".join(f"{n} x {reason}" for reason, n in counted.most_common(_REASONS_SHOWN))
    return f"{lost} of {planned} trials were lost: {reasons}"
