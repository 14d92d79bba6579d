"""What a run found, in words and in its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    return " ".join(_one(verdict) for verdict in verdicts)


def _one(verdict: Mapping[str, Any]) -> str:
    subject = f"{verdict['arm']}, {verdict['test']} {verdict['metric']}:"
    if verdict["ratio"] is None or verdict["ci95"] is None:
        return f"{subject} {verdict['verdict']} ({verdict['reason']})."
    low, high = verdict["ci95"]
    interval = f"95 % interval {low:.2f} to {high:.2f}"
    figures = f"{verdict['ratio']:.2f} times {verdict['baseline']}'s ({interval})"
    because = f" ({verdict['reason']})" if verdict["reason"] else ""
    return f"{subject} {figures}, {verdict['verdict']}{because}."


def loss(missing: Iterable[Mapping[str, Any]], *, lost: int, planned: int) -> str:
    """Why trials were lost: the commonest reasons."""
    counted = Counter(trial.get("reason", "never ran") for trial in missing)
    reasons = "; ".join(f"{n} x {reason}" for reason, n in counted.most_common(_REASONS_SHOWN))
    return f"{lost} of {planned} trials were lost: {reasons}"
