"""The data of a campaign's page, organized by step and by arm. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from rackrate.report.tables import link
from rackrate_contract.campaign import Answer, CampaignResults, Step, SweepCell
from rackrate_contract.capacity import sentences
from rackrate_contract.verdicts import Judged

#: The most figures of a page, so that it opens quickly and can be sent by mail.
MOST_FIGURES = 24
#: Where the rows are that a table leaves out.
REST = "campaign.json lists"
#: The statuses of runs that have a page.
_WITH_PAGE = frozenset({"succeeded", "degraded", "failed"})


@dataclass(frozen=True)
class CampaignMaterial:
    """The data of the page of a campaign.

    Attributes:
        results: campaign.json.
    """

    results: CampaignResults

    @property
    def scale(self) -> float | None:
        """The factor by which the lab scaled the nodes' network, or None."""
        return self.results.campaign.lab_scale

    @property
    def is_pool(self) -> bool:
        """Whether the campaign pools runs that were made before."""
        return self.results.campaign.kind == "pool"

    @property
    def capacity(self) -> list[str]:
        """How often the nodes of each arm came, in sentences."""
        return sentences(self.results.capacity, {s.value: s.change for s in self.results.steps})

    @cached_property
    def arms(self) -> list[str]:
        """The arms' names; an arm's index in the list determines its color."""
        named = [
            *(arm for step in self.results.steps for arm in step.nodes),
            *(name for answer in self.results.answers for name in (answer.arm, answer.baseline)),
            *(cell.arm for cell in self.results.sweep),
            *(each.arm for each in self.results.capacity),
        ]
        return list(dict.fromkeys(named))

    @cached_property
    def _titles(self) -> dict[str, str]:
        answers = self.results.answers
        baselines = {each.baseline: each.sides[1] for each in answers}
        return baselines | {each.arm: each.sides[0] for each in answers}

    def arm_title(self, name: str) -> str:
        """What people read for an arm's name."""
        return self._titles.get(name, name)

    def arm_number(self, name: str) -> int:
        """An arm's index."""
        return self.arms.index(name)

    @cached_property
    def metrics(self) -> list[SweptMetric]:
        """The metrics of a sweep, in the order of its cells."""
        keys = dict.fromkeys((cell.test, cell.metric) for cell in self.results.sweep)
        return [SweptMetric(self, number, *key) for number, key in enumerate(keys, 1)]

    def title_of(self, value: str | int) -> str:
        """What a value of the sweep is called, such as `VPC CNI v1.15.4-eksbuild.1`."""
        titles = (step.change for step in self.results.steps if step.value == value)
        return next(titles, str(value))

    @cached_property
    def useful_steps(self) -> list[Step]:
        """The steps whose runs have results."""
        return [step for step in self.results.steps if step.status in ("succeeded", "degraded")]

    @cached_property
    def _steps(self) -> dict[str, Step]:
        return {step.run_id: step for step in self.results.steps}

    def step_of(self, run_id: str) -> Step | None:
        """The step that made a run; None for a run of an earlier campaign of the series."""
        return self._steps.get(run_id)

    def run_link(self, run_id: str) -> str:
        """A run's id, as a link to the run's page if it has one in the bucket of this stack."""
        step = self.step_of(run_id)
        if step is not None and (step.source is not None or step.status not in _WITH_PAGE):
            return run_id
        return link(run_id, f"../../runs/{quote(run_id)}/report.html")


@dataclass(frozen=True)
class SweptMetric:
    """The cells of one metric of a sweep.

    Attributes:
        page: the data of the whole page.
        number: its position among the metrics, from 1.
        test: its test.
        metric: its name.
    """

    page: CampaignMaterial
    number: int
    test: str
    metric: str

    @property
    def subject(self) -> str:
        """The test and the metric."""
        return self.cells[0].name

    @cached_property
    def cells(self) -> list[SweepCell]:
        """Its cells: value by value, and arm by arm within a value."""
        cells = [
            cell
            for cell in self.page.results.sweep
            if (cell.test, cell.metric) == (self.test, self.metric)
        ]
        order = list(dict.fromkeys(cell.value for cell in cells))
        return sorted(cells, key=lambda cell: order.index(cell.value))

    @cached_property
    def times(self) -> SweptMetric | None:
        """The first metric of the same test that is a time: a test lists its median first."""
        alike = (each for each in self.page.metrics if each.test == self.test and each.unit == "s")
        return next(alike, None)

    @property
    def unit(self) -> str:
        """The metric's unit."""
        return self.cells[0].unit

    @cached_property
    def values(self) -> list[str | int]:
        """The values of the sweep."""
        return list(dict.fromkeys(cell.value for cell in self.cells))

    @cached_property
    def arms(self) -> list[str]:
        """The arms with cells."""
        return list(dict.fromkeys(cell.arm for cell in self.cells))


def judged(cells: Iterable[SweepCell]) -> list[Judged]:
    """The verdicts of the cells that have one, in the form of headlines."""
    return [
        Judged.from_fields(cell, verdict=cell.verdict) for cell in cells if cell.verdict is not None
    ]


def own_intervals(answer: Answer) -> tuple[int, int]:
    """How many draws' own intervals contain the average, and how many draws have an interval."""
    ends = [draw.ci95 for draw in answer.draws if draw.ci95 is not None]
    if answer.ratio is None:
        return 0, len(ends)
    return sum(low <= answer.ratio <= high for low, high in ends), len(ends)


def first_draw_figures(answers: Sequence[Answer]) -> list[Answer]:
    """The answers whose first draw has a ratio with an interval, beside the campaign's own."""
    return [
        answer
        for answer in answers
        if len(answer.draws) > 1 and answer.draws[0].ci95 is not None and answer.ci95 is not None
    ]
