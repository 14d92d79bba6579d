"""Stored trials: what one test measured on one pair in one block, or why it failed."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence

from rackrate.foreign import plain
from rackrate.histograms import Histogram
from rackrate.tools.base import MEMBERS_CPU, Interval, Measurement, TestBase
from rackrate_contract.arms import Network, Via
from rackrate_contract.document import Document, Json
from rackrate_contract.trials import Status, TrialKey

Detail = float | int | str


class TrialState(Document):
    """A trial's state, which decides what to measure next."""

    status: Status
    attempt: int
    reason: str | None = None
    """Why it failed."""

    @property
    def is_measured(self) -> bool:
        """Whether it has a value."""
        return self.status == "measured"


class Trial(TrialState):
    """A trial of a run. A failed trial has no values."""

    block: int
    """1 or more; 0 is the warm-up."""
    arm: str
    test: str
    client: str
    server: str
    round: int
    tool: str
    metric: str
    """The test's primary metric."""
    unit: str
    placement: str
    client_network: Network
    server_network: Network | None = None
    """Null towards an endpoint."""
    via: Via = "pod"
    """What the client connected to."""
    warm_up: bool = False
    repeated_together: bool = False
    """Whether a repetition measured it together with its partners of the other arms."""
    value: float | None = None
    """Of the primary metric."""
    values: dict[str, float] = {}  # noqa: RUF012 (pydantic copies it)
    """By metric."""
    samples: dict[str, int] = {}  # noqa: RUF012 (pydantic copies it)
    """How many raw values are kept, by kind."""
    details: dict[str, Detail] = {}  # noqa: RUF012 (pydantic copies it)
    """Further figures, their units in their names."""
    samples_key: str | None = None
    """The object with its raw values and series."""
    raw_key: str | None = None
    """The object with what the tool printed."""
    tool_version: str | None = None
    started_at: str | None = None
    """ISO 8601, by the kubelet's clock."""
    finished_at: str | None = None
    client_node: str | None = None
    """The node that had taken the place that `client` names; null: the node of that name. The run's
    plan and its replacements have the facts about nodes."""
    server_node: str | None = None

    @property
    def key(self) -> TrialKey:
        """Its key within the run."""
        return TrialKey(self.block, self.arm, self.test, self.client, self.server)

    @property
    def client_name(self) -> str:
        """The client's node, which may have taken the place that `client` names."""
        return self.client_node or self.client

    @property
    def server_name(self) -> str:
        """The server's node, which may have taken the place that `server` names."""
        return self.server_node or self.server

    @property
    def nodes(self) -> frozenset[str]:
        """The places of its two nodes, regardless of direction."""
        return frozenset((self.client, self.server))

    @property
    def interval(self) -> tuple[float, float] | None:
        """When it started and finished, in seconds since the epoch; None if that is unknown."""
        moments = [_moment(text) for text in (self.started_at, self.finished_at)]
        started, finished = moments
        return None if started is None or finished is None else (started, finished)

    def detail(self, name: str) -> float | None:
        """A detail by name; None if it is missing or not a number."""
        detail = self.details.get(name)
        return float(detail) if isinstance(detail, int | float) else None

    def measured(self, test: TestBase, measurement: Measurement) -> Trial:
        """The trial with its test's measurement."""
        return self.model_copy(
            update={
                "status": "measured",
                "value": measurement.values[test.primary.name],
                "values": dict(measurement.values),
                "samples": {
                    **{kind: len(values) for kind, values in measurement.samples.items()},
                    **{kind: each.total for kind, each in measurement.histograms.items()},
                },
                "details": {
                    name: plain(value) if isinstance(value, str) else value
                    for name, value in measurement.details.items()
                },
                "tool_version": measurement.version and plain(measurement.version),
            }
        )

    def with_members_cpu(self, percents: Sequence[float | None]) -> Trial:
        """The trial with the CPU time that each member of its workload used, in percent of a CPU.

        Without that of one member it stays as it is: the busiest one may be missing.
        """
        known = [each for each in percents if each is not None]
        if not known or len(known) < len(percents):
            return self
        figures = dict(zip(MEMBERS_CPU, (statistics.fmean(known), max(known)), strict=True))
        added = {detail.name: figure for detail, figure in figures.items()}
        return self.model_copy(update={"details": {**self.details, **added}})

    def to_item(self) -> Json:
        """The trial as an item of the table, without unknown fields."""
        item = self.model_dump(mode="json", exclude_none=True)
        for name in ("warm_up", "repeated_together"):
            if not item[name]:
                del item[name]
        if not self.is_measured:
            for name in ("values", "samples", "details"):
                del item[name]
        return item


def _moment(text: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time with its zone."""
    if text is None:
        return None
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()


class RawValues(Document):
    """The raw values and series of a trial, which are stored outside the table."""

    samples: dict[str, tuple[float, ...]] = {}  # noqa: RUF012 (pydantic copies it)
    """All raw values by kind, in SI units."""
    histograms: dict[str, Histogram] = {}  # noqa: RUF012 (pydantic copies it)
    """Histograms of raw values by kind, in SI units."""
    series: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, measurement: Measurement) -> RawValues:
        """The raw values and series of a measurement."""
        return cls(
            samples=dict(measurement.samples),
            histograms=dict(measurement.histograms),
            series=measurement.series,
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are neither raw values nor a series."""
        return not (self.samples or self.histograms or self.series)
