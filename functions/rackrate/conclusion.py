"""What a run found, in words and in its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: How a run may end for which the benchmark answers. That a plan was refused, only checked, or
#: stopped by a person is neither.
GOOD = frozenset({"succeeded", "degraded"})
BAD = frozenset({"failed", "timed_out"})

_REASONS_SHOWN = 3


def status_of(failure: Mapping[str, Any] | None, *, lost: int) -> str:
    """How a run that came to its end ended.

    Args:
        failure: Step Functions' `Error` and `Cause`, or None.
        lost: how many trials were not measured.
    """
    if failure is not None:
        return "invalid" if failure.get("Error") == "InvalidPlan" else "failed"
    return "degraded" if lost else "succeeded"


def sentence(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The conclusion of all verdicts in a few words."""
    if not verdicts:
        return "Nothing can be said: no arm could be compared with the baseline."
    comparisons: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        arms = (verdict["arm"], verdict["baseline"])
        comparisons.setdefault(arms, []).append(_finding(verdict))
    return " ".join(
        f"{arm} against {baseline}: {'; '.join(findings)}."
        for (arm, baseline), findings in comparisons.items()
    )


def _finding(verdict: Mapping[str, Any]) -> str:
    test, metric = verdict["test"], verdict["metric"]
    subject = test if test == metric else f"{test} {metric}"
    because = f" ({verdict['reason']})" if verdict["reason"] else ""
    if verdict["ratio"] is None or verdict["ci95"] is None:
        return f"{subject} {verdict['verdict']}{because}"
    low, high = verdict["ci95"]
    figures = f"{verdict['ratio']:.2f} times (95 % interval {low:.2f} to {high:.2f})"
    return f"{subject} {figures}, {verdict['verdict']}{because}"


def loss(missing: Iterable[Mapping[str, Any]], *, lost: int, planned: int) -> str:
    """Why trials were lost: the commonest reasons."""
    counted = Counter(trial.get("reason", "never ran") for trial in missing)
    reasons = "; ".join(f"{n} x {reason}" for reason, n in counted.most_common(_REASONS_SHOWN))
    return f"{lost} of {planned} trials were lost: {reasons}"
