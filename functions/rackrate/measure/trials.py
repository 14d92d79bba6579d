"""Trials as they are stored: what one test measured on one pair in one block, or why it failed."""

from __future__ import annotations

from typing import Literal

from rackrate.document import Document, Json
from rackrate.plan.arms import Network, Node
from rackrate.plan.schedule import TrialKey
from rackrate.tools import Interval, Measurement, TestBase

Status = Literal["measured", "failed"]
Detail = float | int | str


class TrialState(Document):
    """How a trial stands, for those who decide what to measure next."""

    status: Status
    attempt: int
    reason: str | None = None
    """Why it failed."""

    @property
    def is_measured(self) -> bool:
        """Has it a value?"""
        return self.status == "measured"


class Trial(TrialState):
    """A trial of a run. What failed has no values."""

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
    server_network: Network
    warm_up: bool = False
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
    client_node: Node | None = None
    """Null where only what was measured was read."""
    server_node: Node | None = None

    @property
    def key(self) -> TrialKey:
        """What names it within its run."""
        return TrialKey(self.block, self.arm, self.test, self.client, self.server)

    @property
    def nodes(self) -> frozenset[str]:
        """Its two nodes, whichever way."""
        return frozenset((self.client, self.server))

    def detail(self, name: str) -> float | None:
        """A detail that is a number, or None."""
        found = self.details.get(name)
        return float(found) if isinstance(found, int | float) else None

    def measured(self, test: TestBase, measurement: Measurement) -> Trial:
        """The trial with what its test measured."""
        return self.model_copy(
            update={
                "status": "measured",
                "value": measurement.values[test.primary.name],
                "values": dict(measurement.values),
                "samples": {kind: len(values) for kind, values in measurement.samples.items()},
                "details": dict(measurement.details),
                "tool_version": measurement.version,
            }
        )

    def to_item(self) -> Json:
        """The trial as the table has it: what is not known is left out."""
        item = self.model_dump(mode="json", exclude_none=True)
        for side in ("client_node", "server_node"):
            if side in item and not item[side]["network_layers"]:
                del item[side]["network_layers"]
        if not self.warm_up:
            del item["warm_up"]
        if not self.is_measured:
            for name in ("values", "samples", "details"):
                del item[name]
        return item


class RawValues(Document):
    """What is kept of a trial beside the table."""

    samples: dict[str, tuple[float, ...]] = {}  # noqa: RUF012 (pydantic copies it)
    """All raw values by kind, in SI units."""
    series: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, measurement: Measurement) -> RawValues:
        """Those of a measurement."""
        return cls(samples=dict(measurement.samples), series=measurement.series)

    @property
    def is_empty(self) -> bool:
        """Is there nothing to keep?"""
        return not (self.samples or self.series)
