"""results.json, the part of it that a terminal shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from .errors import EXIT_FAILED, Refusal

SCHEMA = "rackrate.result.v1"


type Interval = tuple[float, float]


@dataclass(frozen=True)
class Ceiling:
    """The documented limit of both arms, in the verdict's unit; None where there is none.

    The shares are what each arm came to of its limit; `text` says whether the limits explain the
    verdict.
    """

    name: str
    arm: float | None
    baseline: float | None
    arm_share: float | None
    baseline_share: float | None
    text: str | None


@dataclass(frozen=True)
class Steadiness:
    """How much the arms scatter: a share of the median for each, and how they compare."""

    arm: float | None
    baseline: float | None
    ratio: float | None
    ci95: Interval | None
    verdict: str


@dataclass(frozen=True)
class Verdict:
    """One arm against the baseline on one metric of one test; None is what was not measured.

    `interval` is the one that decides: with the other verdicts' at once, where there are several.
    """

    test: str
    metric: str
    unit: str
    arm: str
    baseline: str
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None
    interval: Interval | None
    is_simultaneous: bool
    verdict: str
    scope: str | None
    claim: str | None
    more_blocks: int | None
    more_pairs: int | None
    ceiling: Ceiling | None
    steadiness: Steadiness | None


@dataclass(frozen=True)
class Results:
    """A run's results. `placements` maps an arm's name to its placement strategy.

    `regressions` compare each arm with itself in an earlier run. What results of an older stack do
    not tell is empty.
    """

    run_id: str
    status: str
    lab_scale: float | None
    placements: Mapping[str, str]
    planned: int
    measured: int
    failed: int
    warmed_up: int
    verdicts: tuple[Verdict, ...]
    regressions: tuple[Verdict, ...]
    mark_notes: tuple[str, ...]
    warnings: tuple[str, ...]
    conclusion: str | None

    @classmethod
    def read(cls, text: bytes, run_id: str) -> Self:
        """Parse results.json. Raises Refusal when it is of another schema or incomplete."""
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise Refusal(
                    f'The results of {run_id} are "{document["schema"]}" and this command reads'
                    f' "{SCHEMA}"; use the rackrate that belongs to the stack.',
                    EXIT_FAILED,
                )
            run = document["run"]
            trials = document["trials"]
            return cls(
                run_id=run["id"],
                status=run["status"],
                lab_scale=run["lab_scale"],
                placements={arm["name"]: arm["placement"] for arm in document["arms"]},
                planned=trials["planned"],
                measured=trials["measured"],
                failed=trials["failed"],
                warmed_up=len((document.get("warm_up") or {}).get("trials", ())),
                verdicts=tuple(_verdict(verdict) for verdict in document["verdicts"]),
                regressions=tuple(_verdict(v) for v in document.get("regressions") or ()),
                mark_notes=tuple(str(note) for note in document.get("mark_notes") or ()),
                warnings=tuple(str(warning) for warning in document.get("warnings") or ()),
                conclusion=document.get("conclusion") or run.get("conclusion"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Refusal(
                f"The results.json of {run_id} is not a complete {SCHEMA}"
                f" ({type(error).__name__}: {error}); read it in the bucket.",
                EXIT_FAILED,
            ) from error


def _verdict(document: Mapping[str, Any]) -> Verdict:
    simultaneous = _interval(document.get("ci_simultaneous"))
    return Verdict(
        test=document["test"],
        metric=document["metric"],
        unit=document["unit"],
        arm=document["arm"],
        baseline=document["baseline"],
        arm_median=document["arm_median"],
        baseline_median=document["baseline_median"],
        ratio=document["ratio"],
        interval=simultaneous or _interval(document["ci95"]),
        is_simultaneous=simultaneous is not None,
        verdict=document["verdict"],
        scope=document.get("scope"),
        claim=document.get("claim"),
        more_blocks=document.get("more_blocks"),
        more_pairs=document.get("more_pairs"),
        ceiling=_ceiling(document["ceiling"]),
        steadiness=_steadiness(document.get("steadiness")),
    )


def _ceiling(document: Mapping[str, Any] | None) -> Ceiling | None:
    if document is None:
        return None
    return Ceiling(
        document["name"],
        document["arm"],
        document["baseline"],
        document.get("arm_share"),
        document.get("baseline_share"),
        document.get("text"),
    )


def _steadiness(document: Mapping[str, Any] | None) -> Steadiness | None:
    if not document or not document.get("verdict"):
        return None
    return Steadiness(
        document.get("arm"),
        document.get("baseline"),
        document.get("ratio"),
        _interval(document.get("ci95")),
        document["verdict"],
    )


def _interval(ends: Sequence[float] | None) -> Interval | None:
    return None if ends is None else (ends[0], ends[1])
