"""What a page is drawn from, put in order: of the page, of one test, of one metric. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.schedule import TrialKey
from rackrate.results.schema import Compared, Comparison, Findings, MetricOfTest
from rackrate.tools import Interval, TestBase
from rackrate.verdict import wording
from rackrate.verdict.model import Baseline, Mark, Summary, Verdict

_NO_RAW = RawValues()


@dataclass(frozen=True)
class Detail:
    """How much of a large run a page holds.

    Attributes:
        rows: of the table of a figure's data.
        vectors: dots of all figures of trials together that are drawn one by one, with a tip.
        drawn_tests: of how many tests there are figures.
    """

    rows: int
    vectors: int
    drawn_tests: int


@dataclass(frozen=True)
class Material:
    """What the page of a run or of a comparison is drawn from.

    Attributes:
        results: results.json or comparison.json.
        trials: the stored trials, warm-ups among them.
        raw: raw values and series by trial id.
        detail: how much is shown.
    """

    results: Findings
    trials: Sequence[Trial]
    raw: Mapping[str, RawValues]
    detail: Detail

    @property
    def comparison(self) -> Compared | None:
        """Which runs are compared, if it is a comparison."""
        return self.results.comparison if isinstance(self.results, Comparison) else None

    @cached_property
    def arms(self) -> list[str]:
        """The arms' names; their places in the list are their colours."""
        return [arm.name for arm in self.results.arms]

    def arm_number(self, name: str) -> int:
        """An arm's place."""
        return self.arms.index(name)

    def baseline_number(self, baseline: Baseline) -> int:
        """A baseline's place; an earlier run comes after the arms."""
        return len(self.arms) if baseline.is_earlier_run else self.arm_number(baseline.name)

    @property
    def scale(self) -> float | None:
        """By what the nodes' network is scaled on purpose, or None."""
        return self.results.run.lab_scale

    @cached_property
    def tests(self) -> dict[str, TestMaterial]:
        """What there is of each test, by its name."""
        return {
            test.name: TestMaterial(self, number, test)
            for number, test in enumerate(self.results.plan.tests, 1)
        }

    @cached_property
    def failed(self) -> list[Trial]:
        """The trials that ran and failed, without the warm-up."""
        return [trial for trial in self.trials if not (trial.is_measured or trial.warm_up)]

    @cached_property
    def _marks(self) -> dict[TrialKey, list[Mark]]:
        found: dict[TrialKey, list[Mark]] = defaultdict(list)
        for mark in self.results.marks:
            found[mark.key].append(mark)
        return found

    def marks_of(self, trial: Trial) -> list[Mark]:
        """The marks of a trial."""
        return self._marks.get(trial.key, [])

    @cached_property
    def _by_key(self) -> dict[TrialKey, Trial]:
        return {trial.key: trial for trial in self.trials}

    def marked_trial(self, mark: Mark) -> Trial:
        """The trial that bears a mark."""
        return self._by_key[mark.key]

    def raw_of(self, trial: Trial) -> RawValues:
        """What is kept of a trial's raw values; empty where nothing is."""
        return self.raw.get(trial.key.id, _NO_RAW)

    def raw_link(self, trial: Trial) -> str | None:
        """Where the tool's output of a trial is, seen from the page; None when it is not kept."""
        if trial.raw_key is None:
            return None
        if self.comparison is not None:
            return f"../../{quote(trial.raw_key)}"
        return f"raw/{quote(trial.raw_key.rsplit('/', 1)[-1])}"


@dataclass(frozen=True)
class TestMaterial:
    """What the page has of one test.

    Attributes:
        page: what the whole page is drawn from.
        number: the test's place in the plan, from 1.
        test: the test as the plan has it.
    """

    page: Material
    number: int
    test: TestBase

    @property
    def name(self) -> str:
        """The test's name."""
        return self.test.name

    @property
    def anchor(self) -> str:
        """What links to its section name."""
        return f"test-{self.number}"

    @cached_property
    def metrics(self) -> list[MetricMaterial]:
        """What there is of each of its metrics."""
        return [
            MetricMaterial(self, number, metric)
            for number, metric in enumerate(self.page.results.metrics, 1)
            if metric.test == self.name
        ]

    @cached_property
    def measured(self) -> list[Trial]:
        """Its trials that have values, without the warm-up."""
        return [
            trial
            for trial in self.page.trials
            if trial.test == self.name and trial.is_measured and not trial.warm_up
        ]

    @cached_property
    def failed(self) -> list[Trial]:
        """Those that failed."""
        return [trial for trial in self.page.failed if trial.test == self.name]

    @property
    def marks(self) -> list[Mark]:
        """The marks of its trials."""
        return [mark for mark in self.page.results.marks if mark.test == self.name]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on it, those against an earlier run left out."""
        return [verdict for verdict in self.page.results.verdicts if verdict.test == self.name]

    @property
    def summaries(self) -> list[Summary]:
        """Each arm by itself."""
        return [summary for summary in self.page.results.summaries if summary.test == self.name]

    @cached_property
    def samples(self) -> dict[str, dict[str, list[float]]]:
        """The raw values by kind and arm, all trials together, ascending."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for trial in self.measured:
            for kind, values in self.page.raw_of(trial).samples.items():
                found[kind][trial.arm] += values
        return {
            kind: {arm: sorted(by_arm[arm]) for arm in self.page.arms if by_arm[arm]}
            for kind, by_arm in found.items()
            if any(by_arm.values())
        }

    def unit_of(self, kind: str) -> str:
        """The unit of a kind of raw values."""
        return next(metric.unit for metric in self.test.metrics if metric.samples == kind)

    @cached_property
    def series(self) -> list[tuple[Trial, Sequence[Interval]]]:
        """The trials that have a course of two intervals or more, with it."""
        found = ((trial, self.page.raw_of(trial).series) for trial in self.measured)
        return [(trial, intervals) for trial, intervals in found if len(intervals) > 1]


@dataclass(frozen=True)
class MetricMaterial:
    """What the page has of one metric of a test.

    Attributes:
        test: what there is of its test.
        number: its place among all that is measured, from 1.
        metric: what is measured.
    """

    test: TestMaterial
    number: int
    metric: MetricOfTest

    @property
    def page(self) -> Material:
        """What the whole page is drawn from."""
        return self.test.page

    @property
    def id(self) -> str:
        """What the ids of its figures end with."""
        return f"{self.test.number}-{self.number}"

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric.metric

    @property
    def unit(self) -> str:
        """The metric's unit."""
        return self.metric.unit

    @property
    def subject(self) -> str:
        """The test and the metric."""
        return wording.metric_of_test(self.test.name, self.name)

    @cached_property
    def values(self) -> list[tuple[Trial, float]]:
        """The trials that have a value of it, with the value."""
        return [
            (trial, trial.values[self.name])
            for trial in self.test.measured
            if self.name in trial.values
        ]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on it."""
        return [verdict for verdict in self.test.verdicts if verdict.metric == self.name]
