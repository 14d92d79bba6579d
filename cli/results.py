"""results.json, the part of it that a terminal shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .errors import EXIT_FAILED, Refusal

SCHEMA = "rackrate.result.v1"


@dataclass(frozen=True)
class Ceiling:
    """The documented limit of both arms, in the verdict's unit; None where there is none."""

    name: str
    arm: float | None
    baseline: float | None


@dataclass(frozen=True)
class Verdict:
    """One arm against the baseline on one metric of one test; None is what was not measured."""

    test: str
    metric: str
    unit: str
    arm: str
    baseline: str
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None
    ci95: tuple[float, float] | None
    verdict: str
    ceiling: Ceiling | None


@dataclass(frozen=True)
class Results:
    """A run's results. `placements` maps an arm's name to its placement strategy."""

    run_id: str
    status: str
    lab_scale: float | None
    placements: Mapping[str, str]
    planned: int
    measured: int
    failed: int
    verdicts: tuple[Verdict, ...]
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
                verdicts=tuple(_verdict(verdict) for verdict in document["verdicts"]),
                conclusion=document.get("conclusion") or run.get("conclusion"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Refusal(
                f"The results.json of {run_id} is not a complete {SCHEMA}"
                f" ({type(error).__name__}: {error}); read it in the bucket.",
                EXIT_FAILED,
            ) from error


def _verdict(document: Mapping[str, Any]) -> Verdict:
    ceiling = document["ceiling"]
    interval = document["ci95"]
    return Verdict(
        test=document["test"],
        metric=document["metric"],
        unit=document["unit"],
        arm=document["arm"],
        baseline=document["baseline"],
        arm_median=document["arm_median"],
        baseline_median=document["baseline_median"],
        ratio=document["ratio"],
        ci95=None if interval is None else (interval[0], interval[1]),
        verdict=document["verdict"],
        ceiling=None
        if ceiling is None
        else Ceiling(ceiling["name"], ceiling["arm"], ceiling["baseline"]),
    )
