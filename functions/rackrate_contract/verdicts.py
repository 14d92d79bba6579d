"""Verdicts, summaries, and what differed between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer

from rackrate_contract.document import Document
from rackrate_text.units import change
from rackrate_text.words import counted, metric_of_test, several_runs

#: The direction in which a metric is better.
Better = Literal["higher", "lower"]
Word = Literal["better", "worse", "no meaningful difference", "inconclusive"]
#: What a claim is about: the measured nodes while they were measured; the placement that this stack
#: got; one run, compared with earlier runs.
Scope = Literal["these nodes", "this stack's placement", "this run"]
#: The lower and the upper end of an interval of a ratio.
Ends = tuple[float, float]

_ONE_RUN = "run "
#: Precedes the runs in a baseline of several; no arm's name has it.
_RUNS = ": "
_BETWEEN_RUNS = ", "
#: Precedes the values of a fact that is not the same in all of the other runs.
VARYING = "varying: "


@dataclass(frozen=True)
class Baseline:
    """The baseline of a verdict.

    Attributes:
        name: another arm's name, an earlier run's id, or what several earlier runs are called: the
            name of a baseline, or `4 runs`.
        runs: the ids of the earlier runs that have the same arm; empty for an arm of the same run.
    """

    name: str
    runs: tuple[str, ...] = ()

    @property
    def is_earlier_run(self) -> bool:
        """Whether it is the same arm in one or more earlier runs."""
        return bool(self.runs)

    @classmethod
    def read(cls, value: object) -> object:
        """Read what `written` returned; pass anything else on for pydantic to reject."""
        if not isinstance(value, str):
            return value
        name, several, runs = value.partition(_RUNS)
        if several:
            return cls(name, tuple(runs.split(_BETWEEN_RUNS)))
        if value.startswith(_ONE_RUN):
            run_id = value.removeprefix(_ONE_RUN)
            return cls(run_id, (run_id,))
        return cls(value)

    @property
    def text(self) -> str:
        """The baseline for people: an arm, `run <id>`, or such as `the 4 runs of main`."""
        return several_runs(self.name, len(self.runs)) if len(self.runs) > 1 else self.written()

    def written(self) -> str:
        """The baseline as `rackrate.result.v1` has it.

        Returns:
            An arm's name, `run <id>`, or for several runs `<name>: <id>, <id>`.
        """
        if len(self.runs) > 1:
            return f"{self.name}{_RUNS}{_BETWEEN_RUNS.join(self.runs)}"
        return f"{_ONE_RUN}{self.runs[0]}" if self.runs else self.name


class Pairs(Document):
    """The number of pairs of nodes behind a verdict."""

    arm: int
    baseline: int


class KindOfPairs(Document):
    """Pairs of one kind."""

    pairs: int
    median: float | None
    """Of their trials, in the verdict's unit; null without such pairs."""


class PartitionPairs(Document):
    """An arm's pairs in a partition placement group, by the partitions of their nodes."""

    within: KindOfPairs
    """Both nodes are in one partition, whose racks they share."""
    across: KindOfPairs
    """The nodes are in two partitions, which share no rack."""


class Claim(Document):
    """A verdict's interval and word for a wider scope."""

    ci95: Ends
    """The 95 % interval of the ratio alone."""
    ci_simultaneous: Ends
    """The interval adjusted for all verdicts and looks of the run, cut to what the word says."""
    verdict: Word
    reason: str | None
    """Why it is inconclusive."""


class Steadiness(Document):
    """The arms' variability (CV) between blocks, within pairs and directions.

    It is the mean absolute deviation from the median, as the standard deviation of normal noise.
    """

    arm: float | None
    baseline: float | None
    ratio: float | None
    """The arm's variability divided by the baseline's."""
    ci95: Ends | None
    """The 95 % interval of this ratio alone."""
    ci_simultaneous: Ends | None = None
    """The same, adjusted for all comparisons of the run; it decides the verdict."""
    verdict: Word
    """`better` if the arm is steadier."""
    reason: str | None
    """Why it is inconclusive, or why the difference does not matter."""

    @property
    def shown_interval(self) -> Ends | None:
        """The interval that the word belongs to; results of earlier versions have one alone."""
        is_adjusted = "ci_simultaneous" in self.model_fields_set
        return self.ci_simultaneous if is_adjusted else self.ci95


class Ceiling(Document):
    """The documented limits that apply to a verdict on throughput, in bit/s after scaling."""

    name: str
    """The arm's limit."""
    arm: float
    baseline: float
    source: str
    arm_share: float | None
    """The arm's level as a share of its limit."""
    baseline_share: float | None
    explains: bool
    """Whether the limits explain how the arms compare."""
    text: str


class OnMetric(Document):
    """What is about one metric of a test."""

    test: str
    metric: str
    unit: str
    better: Better

    @property
    def name(self) -> str:
        """The test and its metric, or one name where both have the same."""
        return metric_of_test(self.test, self.metric)


class Judged(OnMetric):
    """The verdict on an arm: of a run, over draws, or against the first value of a sweep."""

    arm: str
    title: str = ""
    """The test in words, such as `8 flows`; empty in older files, like the arms' titles."""
    arm_title: str = ""
    """What people read for the arm, such as `cluster group`."""
    baseline_title: str = ""
    ratio: float | None
    """The arm's geometric mean divided by the baseline's."""
    verdict: Word

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is conclusive."""
        return self.verdict != "inconclusive"


class Levels(Document):
    """How large the values of both sides of a ratio are, in the metric's unit."""

    arm_median: float | None
    """The median of its trials; of an answer, that of its draws' medians."""
    baseline_median: float | None
    arm_mean: float | None = None
    """The geometric mean of the trials or draws, of which `ratio` is the quotient; null if there is
    no ratio, if a draw has none, and in older files."""
    baseline_mean: float | None = None

    @property
    def levels(self) -> tuple[float | None, float | None]:
        """The levels of the arm and the baseline whose quotient is the ratio: geometric means.

        They are medians if there is no ratio, and in results of earlier versions.
        """
        if self.arm_mean is None or self.baseline_mean is None:
            return self.arm_median, self.baseline_median
        return self.arm_mean, self.baseline_mean


class Verdict(Levels, Judged):
    """An arm compared with the baseline, or with itself in an earlier run, on one metric."""

    baseline: Annotated[
        Baseline,
        BeforeValidator(Baseline.read),
        PlainSerializer(Baseline.written, return_type=str),
    ]
    """The baseline's name; `run <id>` for an earlier run, `<name>: <id>, <id>` for several."""
    left_out: int = 0
    """Number of values that are not positive and finite. No figure contains them."""
    ci95: Ends | None
    """The 95 % interval of the ratio on these nodes alone."""
    ci_simultaneous: Ends | None
    """The same, adjusted for all verdicts and looks of the run, and cut to what the word says; null
    with fewer than six blocks."""
    confidence_simultaneous: float | None
    reason: str | None
    """Why it is inconclusive."""
    blocks: int
    pairs: Pairs
    partitions: PartitionPairs | None = None
    """The arm's pairs by partition; null where it has none, or EC2 did not report them."""
    span_seconds: float | None = None
    """From the start of the first trial to the end of the last."""
    scope: Scope
    """The widest scope to which the word applies."""
    stack: Claim | None = None
    """The interval and the word for this stack's placement; null with fewer than three pairs."""
    claim: str
    more_blocks: int | None
    """About how many more blocks would settle it."""
    more_pairs: int | None = None
    """About how many more pairs of each arm would settle it for this stack's placement."""
    prospect: float | None = None
    """Probability that the run's most blocks settle it, while it is open."""
    more_runs: int | None = None
    """How many more earlier runs a verdict needs."""
    smallest_regression: float | None = None
    """The ratio of the smallest regression that the earlier runs show in half of the cases; null
    for an arm of the same run, and with fewer than four earlier runs."""
    threshold: float
    """Differences below this share do not matter."""
    ceiling: Ceiling | None
    marks: dict[str, int]
    """Number of its trials with each mark."""
    drift: str | None = None
    """A trend, a step or a dip of one arm alone, which makes the interval too narrow."""
    steadiness: Steadiness | None

    @property
    def sides(self) -> tuple[str, str]:
        """What people read for the arm and for the baseline."""
        return self.arm_title or self.arm, self.baseline_title or self.baseline.text

    @property
    def lacks(self) -> str:
        """What a clear verdict needs, such as `about 3 more blocks`; empty if unknown."""
        if self.more_runs:
            return counted(self.more_runs, "more run")
        return f"about {counted(self.more_blocks, 'more block')}" if self.more_blocks else ""

    @property
    def shown_interval(self) -> Ends | None:
        """The adjusted interval of the verdict's scope."""
        if self.stack is not None and self.scope != "these nodes":
            return self.stack.ci_simultaneous
        return self.ci_simultaneous

    @property
    def margin(self) -> float:
        """The regression that a gate has to show: twice the share that does not matter."""
        return 2 * self.threshold

    @property
    def shows(self) -> str:
        """What its earlier runs show: `a regression would show from +12 % on`; may be empty."""
        smallest = self.smallest_regression
        return f"a regression would show from {change(smallest)} on" if smallest else ""

    @property
    def is_blind(self) -> bool:
        """Whether its earlier runs do not show a regression of the margin, as far as is known."""
        least = 1 + self.margin
        smallest = self.smallest_regression
        return smallest is not None and not 1 / least <= smallest <= least

    @property
    def needed(self) -> int | None:
        """How many blocks would settle it; None if that is unknown, or it is settled."""
        return None if self.more_blocks is None else self.blocks + self.more_blocks


class Percentiles(Document):
    """Percentiles of an arm's pooled raw values, in the metric's unit; null for too few values."""

    p50: float | None
    p90: float | None
    p99: float | None
    p99_9: float | None
    intervals: dict[str, Ends] = {}  # noqa: RUF012 (pydantic copies it)
    """The 95 % intervals, by percentile; one with too few values in a block has none."""
    samples: int
    """The number of raw values."""


class Summary(Document):
    """An arm's values of one metric, summarized."""

    test: str
    metric: str
    unit: str
    arm: str
    median: float | None
    trials: int
    blocks: int
    pairs: int
    spread_between_blocks: float | None
    spread_between_pairs: float | None
    percentiles: Percentiles | None
    loss_ratio: float | None
    retransmits: int | None


class Difference(Document):
    """A difference between a run and other runs."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    what: str
    """Such as `kernel`, or `zone of baseline` if only one arm differs."""
    run: str
    """Its value in this run."""
    other: Annotated[str, Field(alias="with")]
    """Its value in the other run or runs; `varying: ` precedes the values of runs that differ."""

    @property
    def varies(self) -> bool:
        """Whether it is not the same in all of the other runs."""
        return self.other.startswith(VARYING)
