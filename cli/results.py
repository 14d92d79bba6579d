"""Read the part of results.json that a terminal shows."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rackrate_text.failures import Loss, grouped, place
from rackrate_text.words import counted, metric_of_test, several_runs

from .baselines import LEAST_RUNS
from .typed import check_schema, complete, read_fields, typed

SCHEMA = "rackrate.result.v1"

type Interval = tuple[float, float]

_RUNS = ": "


@dataclass(frozen=True)
class Ceiling:
    """The documented limit of both arms, in the verdict's unit.

    The shares are each arm's median as a share of its limit. `text` says whether the limits
    explain the verdict. None means unknown.
    """

    name: str
    arm: float
    baseline: float
    arm_share: float | None
    baseline_share: float | None
    text: str


@dataclass(frozen=True)
class Steadiness:
    """The arms' variability: for each a share of its median, and the ratio of the two."""

    arm: float | None
    baseline: float | None
    ratio: float | None
    interval: Interval | None
    verdict: str


@dataclass(frozen=True)
class KindOfPairs:
    """Pairs of one kind, and the median of their trials."""

    pairs: int
    median: float | None


@dataclass(frozen=True)
class Stack:
    """What a verdict's pairs say about the stack's placement."""

    interval: Interval | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One arm against the baseline on one metric of one test. None means not measured.

    `earlier_runs` are the earlier runs with which the arm is compared; empty for another arm.
    `partitions` has the arm's pairs `within` a partition and `across` partitions, if it has any.
    `interval` is the one that the verdict depends on. It is adjusted for the number of tests.
    """

    test: str
    metric: str
    unit: str
    arm: str
    baseline: str
    earlier_runs: tuple[str, ...]
    arm_level: float | None
    baseline_level: float | None
    ratio: float | None
    interval: Interval | None
    verdict: str
    reason: str | None
    scope: str | None
    span_seconds: float | None = None
    claim: str | None
    more_blocks: int | None
    more_runs: int | None = None  # results of earlier versions lack it
    stack: Stack | None
    more_pairs: int | None
    partitions: Mapping[str, KindOfPairs]
    ceiling: Ceiling | None
    steadiness: Steadiness | None
    drift: str | None = None

    @property
    def name(self) -> str:
        """The test and its metric, or one name where both have the same."""
        return metric_of_test(self.test, self.metric)

    @property
    def against(self) -> str:
        """What the arm is compared with: an arm, `run <id>`, or such as `the 4 runs of main`."""
        if len(self.earlier_runs) > 1:
            name, _, _ = self.baseline.partition(_RUNS)
            return several_runs(name, len(self.earlier_runs))
        return self.baseline

    @property
    def missing_runs(self) -> int:
        """How many more earlier runs a verdict needs.

        Results of earlier versions have words from fewer runs, which are none.
        """
        too_few = LEAST_RUNS - len(self.earlier_runs) if self.earlier_runs else 0
        return max(self.more_runs or 0, too_few)

    @property
    def lacks(self) -> str:
        """What a clear verdict needs, such as `about 3 more blocks`. Empty when unknown."""
        if self.more_runs:
            return counted(self.more_runs, "more run")
        return f"about {counted(self.more_blocks, 'more block')}" if self.more_blocks else ""


@dataclass(frozen=True)
class Results:
    """A run's results.

    `placements` maps an arm's name to its placement strategy, and the zones of its pairs if the
    plan asked for some. `started_at` is ISO 8601.
    `causes` says why trials failed, the most frequent cause first. `marked` is how many trials have
    a mark, and `mark_notes` says how many have which.
    `regressions` compare each arm with itself in an earlier run. `stopped` says why the run
    measured no more blocks; it is None for a fixed number of blocks and for a comparison.
    """

    run_id: str
    status: str
    started_at: str
    seconds: float | None
    lab_scale: float | None
    placements: Mapping[str, str]
    planned: int
    measured: int
    failed: int
    causes: tuple[Loss, ...]
    warmed_up: int
    verdicts: tuple[Verdict, ...]
    regressions: tuple[Verdict, ...]
    marked: int
    mark_notes: tuple[str, ...]
    warnings: tuple[str, ...]
    conclusion: str
    stopped: str | None

    @classmethod
    def read(cls, text: bytes, run_id: str, schema: str = SCHEMA) -> Self:
        """Parse results.json, or a document of the same layout with another `schema`.

        Raises Refusal when it has another schema or is incomplete.
        """
        with complete(f"The results.json of {run_id} is not a complete {schema}"):
            document = json.loads(text)
            check_schema(document, schema, run_id)
            run, trials = document["run"], document["trials"]
            read = read_fields(
                cls,
                {**document, **run, **trials},
                run_id=run["id"],
                placements={arm["name"]: _placement(arm) for arm in document["arms"]},
                causes=_causes(trials),
                warmed_up=len(document["warm_up"]["trials"]),
                verdicts=tuple(_verdict(verdict) for verdict in document["verdicts"]),
                regressions=tuple(_verdict(v) for v in document["regressions"]),
                marked=len({_trial_of(mark) for mark in document["marks"]}),
                stopped=(document.get("stopped") or {}).get("text"),
            )
            return typed(read)


def _verdict(document: Mapping[str, Any]) -> Verdict:
    # The means are what the ratio is the quotient of; results of earlier versions have none.
    names = ("arm_mean", "baseline_mean")
    levels = [document.get(name) for name in names]
    if None in levels:
        levels = [document[name.replace("mean", "median")] for name in names]
    return read_fields(
        Verdict,
        document,
        earlier_runs=_earlier_runs(document["baseline"]),
        arm_level=levels[0],
        baseline_level=levels[1],
        interval=document["ci_simultaneous"],
        stack=_with_interval(Stack, document.get("stack")),
        partitions=document.get("partitions") or {},
        steadiness=_with_interval(Steadiness, document["steadiness"]),
    )


def _with_interval[T: Hashable](kind: type[T], document: Mapping[str, Any] | None) -> T | None:
    """A part of a verdict that has the interval on which its own word depends."""
    if document is None:
        return None
    name = "ci_simultaneous" if "ci_simultaneous" in document else "ci95"
    return read_fields(kind, document, interval=document[name])


def _trial_of(mark: Mapping[str, Any]) -> tuple[Any, ...]:
    """The trial that a mark is on."""
    return tuple(mark[part] for part in ("block", "arm", "test", "client", "server"))


def _placement(arm: Mapping[str, Any]) -> str:
    """An arm's placement strategy, and the zones of its pairs if the plan asked for some."""
    pairs = arm.get("pairs", "any")  # results of earlier versions lack it
    placement = str(arm["placement"])
    return placement if pairs == "any" else f"{placement}, pairs {pairs.replace('-', ' ')}"


def _earlier_runs(baseline: str) -> tuple[str, ...]:
    """The earlier runs, when `baseline` in results.json is `run <id>` or `<name>: <id>, <id>`."""
    _, several, runs = baseline.partition(_RUNS)
    if several:
        return tuple(runs.split(", "))
    kind, _, run_id = baseline.partition(" ")
    return (run_id,) if kind == "run" and run_id else ()


def _causes(trials: Mapping[str, Any]) -> tuple[Loss, ...]:
    """Why trials failed."""
    if "causes" in trials:
        return tuple(read_fields(Loss, cause) for cause in trials["causes"])
    # Results of earlier versions only list the trials that ran.
    failures = trials["failures"]
    places = (place(each["arm"], each["client"], each["server"]) for each in failures)
    return tuple(grouped(zip((each["reason"] for each in failures), places, strict=True)))
