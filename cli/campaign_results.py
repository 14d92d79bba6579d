"""Read campaign.json: what the runs of a campaign tell together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rackrate_text.words import counted, metric_of_test

from .comparison import Difference, read_differences
from .results import Interval
from .typed import check_schema, complete, read_fields, typed

SCHEMA = "rackrate.campaign.v1"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An arm against the baseline on one metric, over draws. None means not known.

    `ratio` is what the arm has on average as a multiple of the baseline, and `interval` its 95 %
    interval, adjusted for all answers and looks, to which the verdict belongs.
    `prediction` is the 95 % interval of the ratio that the next deployment gets. `changed` says
    whether the newest draw differs from those before it, `trend` how many times the first draw's
    ratio the last one's is, if the draws have a trend.
    """

    test: str
    metric: str
    unit: str
    arm: str
    baseline: str
    draws: int
    left_out: int
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None
    interval: Interval | None
    prediction: Interval | None
    verdict: str
    reason: str | None
    scope: str
    time: str = ""
    claim: str
    more_draws: int | None
    changed: bool | None
    trend: float | None = None

    @property
    def name(self) -> str:
        """The test and its metric, or one name where both have the same."""
        return metric_of_test(self.test, self.metric)

    @property
    def lacks(self) -> str:
        """What a clear answer needs, such as `about 3 more draws`. Empty when unknown."""
        return f"about {counted(self.more_draws, 'more draw')}" if self.more_draws else ""

    @property
    def missing_runs(self) -> int:
        """How many more earlier runs it needs: none, because it is not about earlier runs."""
        return 0


@dataclass(frozen=True)
class Cell:
    """An arm's figures of one metric at one value of a sweep. None means not known.

    `ratio` is to the sweep's first value.
    """

    value: str
    arm: str
    test: str
    metric: str
    unit: str
    mean: float | None
    total: float | None
    share_of_nominal: float | None
    ratio: float | None
    interval: Interval | None
    verdict: str | None

    @property
    def name(self) -> str:
        """The test and its metric, or one name where both have the same."""
        return metric_of_test(self.test, self.metric)


@dataclass(frozen=True)
class Step:
    """A step: a change, then a run. `source` is where a pool's run is from, if not this stack."""

    number: int
    change: str
    run_id: str
    status: str
    source: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CampaignResults:
    """A campaign's results. `linked` are the runs to whose pages its page links."""

    campaign_id: str
    kind: str
    status: str
    seconds: float
    lab_scale: float | None
    budget_dollars: float | None
    dollars: float | None
    series: str | None = None
    conclusion: str
    stopped: str | None
    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    sweep: tuple[Cell, ...]
    differences: tuple[Difference, ...]
    pooling: str = ""
    warnings: tuple[str, ...]
    linked: tuple[str, ...]

    @property
    def verdicts(self) -> tuple[Answer, ...]:
        """The answers, for requirements."""
        return self.answers

    @property
    def regressions(self) -> tuple[Answer, ...]:
        """None: the answers are between arms."""
        return ()

    @classmethod
    def read(cls, text: bytes, campaign_id: str) -> Self:
        """Parse campaign.json. Raises Refusal when it has another schema or is incomplete."""
        with complete(f"The campaign.json of {campaign_id} is not a complete {SCHEMA}"):
            document = json.loads(text)
            check_schema(document, SCHEMA, campaign_id)
            facts, steps = document["campaign"], document["steps"]
            elsewhere = {step["run_id"] for step in steps if step["source"] is not None}
            runs = [step["run_id"] for step in steps]
            for each in document["answers"]:
                for draw in each["draws"]:
                    # Several runs on the same nodes are one draw.
                    runs += draw["run_id"].split(", ")
            read = read_fields(
                cls,
                {**document, **facts},
                campaign_id=facts["id"],
                stopped=(document["stopped"] or {}).get("text"),
                answers=tuple(_answer(answer) for answer in document["answers"]),
                sweep=tuple(_cell(cell) for cell in document["sweep"]),
                differences=read_differences(document["differences"]),
                linked=tuple(run for run in dict.fromkeys(runs) if run not in elsewhere),
            )
            return typed(read)


def _answer(document: Mapping[str, Any]) -> Answer:
    return read_fields(
        Answer,
        document,
        draws=len(document["draws"]),
        interval=document["ci_simultaneous"],
        prediction=document["prediction95"],
    )


def _cell(document: Mapping[str, Any]) -> Cell:
    # Results of earlier versions lack the adjusted interval.
    interval = document.get("ci_simultaneous") or document["ci95"]
    return read_fields(Cell, document, value=str(document["value"]), interval=interval)
