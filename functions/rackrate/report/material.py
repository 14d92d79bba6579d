"""The data of a page, organized by page, test and metric. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from rackrate.histograms import Histogram, merged
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.model import Plan
from rackrate.report.tables import link
from rackrate.tools.base import Interval, TestBase
from rackrate_contract.arms import arm_titles
from rackrate_contract.comparison import Compared, Comparison
from rackrate_contract.ranking import NodeFigure
from rackrate_contract.results import MetricOfTest, Results
from rackrate_contract.trials import Mark, TrialKey
from rackrate_contract.verdicts import Baseline, Summary, Verdict
from rackrate_text.grouping import grouped_by
from rackrate_text.units import duration
from rackrate_text.words import counted, host_name, metric_of_test

_NO_RAW = RawValues()


@dataclass(frozen=True)
class Detail:
    """How much of a large run a page shows.

    Attributes:
        rows: the most rows in the table of a figure's data.
        vectors: the most dots drawn as vectors with tips, in all figures of trials together.
        drawn_tests: the most tests with figures.
        values: the most rows of a figure's CSV; a figure with more has none.
    """

    rows: int
    vectors: int
    drawn_tests: int
    values: int


@dataclass(frozen=True)
class Material:
    """The data of the page of a run or of a comparison.

    Attributes:
        results: results.json or comparison.json.
        trials: the stored trials, including the warm-up.
        raw: raw values and series by trial id.
        detail: how much to show.
    """

    results: Results | Comparison
    trials: Sequence[Trial]
    raw: Mapping[str, RawValues]
    detail: Detail

    @property
    def comparison(self) -> Compared | None:
        """The compared runs, if the page is a comparison's."""
        return self.results.comparison if isinstance(self.results, Comparison) else None

    @cached_property
    def node_figures(self) -> Mapping[tuple[str, str, str], Mapping[str, NodeFigure]]:
        """The figures of ranked nodes, by arm, test and metric, and by the node's name."""
        figures: dict[tuple[str, str, str], dict[str, NodeFigure]] = defaultdict(dict)
        for ranking in self.results.rankings:
            for node in ranking.nodes:
                for each in node.figures:
                    figures[ranking.arm, each.test, each.metric][node.name] = each
        return figures

    @cached_property
    def arms(self) -> list[str]:
        """The arms' names."""
        return [arm.name for arm in self.results.arms]

    @cached_property
    def _titles(self) -> dict[str, str]:
        return arm_titles(self.results.arms)

    def arm_title(self, name: str) -> str:
        """What people read for an arm's name."""
        return self._titles[name]

    def arm_number(self, name: str) -> int:
        """An arm's number, which determines its color: the same as on the page of its run."""
        return self._numbered.index(name)

    @cached_property
    def _numbered(self) -> list[str]:
        # In a comparison the arms of the other runs, which have these after their names, are last.
        return sorted(self.arms, key=lambda name: " (" in name)

    def baseline_number(self, baseline: Baseline) -> int:
        """A baseline's index; an earlier run comes after the arms."""
        return len(self.arms) if baseline.is_earlier_run else self.arm_number(baseline.name)

    @property
    def scale(self) -> float | None:
        """The factor by which the lab scaled the nodes' network, or None."""
        return self.results.run.lab_scale

    def scope_of(self, verdict: Verdict) -> str:
        """What a verdict applies to, with the time in which it was measured."""
        scope: str = verdict.scope
        if scope == "these nodes":
            compared = (verdict.arm, verdict.baseline.name)
            arms = [arm for arm in self.results.arms if arm.name in compared]
            nodes = {node for arm in arms for node in arm.node_names}
            scope = f"these {counted(len(nodes), 'node')}" if len(nodes) > 1 else scope
            endpoints = dict.fromkeys(arm.endpoint.name for arm in arms if arm.endpoint)
            scope = " and ".join((scope, *endpoints))
        if verdict.span_seconds is None:
            return scope
        return f"{scope}, {duration(verdict.span_seconds)}"

    @cached_property
    def tests(self) -> dict[str, TestMaterial]:
        """The data of each test, by its name."""
        return {
            test.name: TestMaterial(self, number, test)
            for number, test in enumerate(Plan.from_json(self.results.plan).tests, 1)
        }

    @cached_property
    def failed(self) -> list[Trial]:
        """The trials that ran and failed, without the warm-up."""
        return [trial for trial in self.trials if not (trial.is_measured or trial.warm_up)]

    @cached_property
    def _marks(self) -> dict[TrialKey, list[Mark]]:
        return grouped_by(self.results.marks, lambda mark: mark.key)

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
        """A trial's stored raw values; empty if there are none."""
        return self.raw.get(trial.key.id, _NO_RAW)

    def raw_link(self, trial: Trial) -> str | None:
        """A link from the page to a trial's tool output; None if it is not stored."""
        if trial.raw_key is None:
            return None
        key = quote(trial.raw_key)
        href = f"../../{key}" if self.comparison else f"raw/{key.rsplit('/', 1)[-1]}"
        arm = self.arm_title(trial.arm)
        what = f"block {trial.block}, {arm}, {pair_of(trial)}"
        return link("raw", href, f"Raw output of {trial.test}, {what}")


def pair_of(trial: Trial) -> str:
    """Client and server by their host names without the domain."""
    return f"{host_name(trial.client_name)} → {host_name(trial.server_name)}"


@dataclass(frozen=True)
class TestMaterial:
    """The data of one test.

    Attributes:
        page: the data of the whole page.
        number: the test's position in the plan, from 1.
        test: the test in the plan.
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
        """The id of its section, for links."""
        return f"test-{self.number}"

    @cached_property
    def metrics(self) -> list[MetricMaterial]:
        """The data of each of its metrics."""
        return [
            MetricMaterial(self, number, metric)
            for number, metric in enumerate(self.page.results.metrics, 1)
            if metric.test == self.name
        ]

    @cached_property
    def measured(self) -> list[Trial]:
        """Its measured trials, without the warm-up."""
        return [
            trial
            for trial in self.page.trials
            if trial.test == self.name and trial.is_measured and not trial.warm_up
        ]

    @cached_property
    def failed(self) -> list[Trial]:
        """Its failed trials, without the warm-up."""
        return [trial for trial in self.page.failed if trial.test == self.name]

    @property
    def marks(self) -> list[Mark]:
        """The marks of its trials."""
        return [mark for mark in self.page.results.marks if mark.test == self.name]

    @property
    def verdicts(self) -> list[Verdict]:
        """Its verdicts, without those against an earlier run."""
        return [verdict for verdict in self.page.results.verdicts if verdict.test == self.name]

    @property
    def summaries(self) -> list[Summary]:
        """The summaries of each arm."""
        return [summary for summary in self.page.results.summaries if summary.test == self.name]

    @cached_property
    def samples(self) -> dict[str, dict[str, tuple[float, ...] | Histogram]]:
        """The pooled raw values by kind and arm, ascending, or their histogram."""
        values: dict[tuple[str, str], list[float]] = defaultdict(list)
        histograms: dict[tuple[str, str], list[Histogram]] = defaultdict(list)
        for trial in self.measured:
            raw = self.page.raw_of(trial)
            for kind, of_kind in raw.samples.items():
                values[kind, trial.arm] += of_kind
            for kind, histogram in raw.histograms.items():
                histograms[kind, trial.arm].append(histogram)
        by_key: dict[tuple[str, str], tuple[float, ...] | Histogram] = {
            key: tuple(sorted(each)) for key, each in values.items() if each
        }
        by_key |= {key: merged(each) for key, each in histograms.items()}
        return {
            kind: {arm: by_key[kind, arm] for arm in self.page.arms if (kind, arm) in by_key}
            for kind in dict.fromkeys(kind for kind, _ in by_key)
        }

    def unit_of(self, kind: str) -> str:
        """The unit of a kind of raw values."""
        return next(metric.unit for metric in self.test.metrics if metric.samples == kind)

    @cached_property
    def series(self) -> list[tuple[Trial, Sequence[Interval]]]:
        """The trials with a series of at least two intervals, and their series."""
        series = ((trial, self.page.raw_of(trial).series) for trial in self.measured)
        return [(trial, intervals) for trial, intervals in series if len(intervals) > 1]


@dataclass(frozen=True)
class MetricMaterial:
    """The data of one metric of a test.

    Attributes:
        test: the data of its test.
        number: its position among all metrics of the page, from 1.
        metric: the metric.
    """

    test: TestMaterial
    number: int
    metric: MetricOfTest

    @property
    def page(self) -> Material:
        """The data of the whole page."""
        return self.test.page

    @property
    def id(self) -> str:
        """The suffix of its figures' ids."""
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
        return metric_of_test(self.test.name, self.name)

    @cached_property
    def values(self) -> list[tuple[Trial, float]]:
        """The trials with a value of the metric, and the value."""
        return [
            (trial, trial.values[self.name])
            for trial in self.test.measured
            if self.name in trial.values
        ]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the metric."""
        return [verdict for verdict in self.test.verdicts if verdict.metric == self.name]
