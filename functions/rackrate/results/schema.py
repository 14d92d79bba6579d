"""The models of results.json and comparison.json.

`make docs` generates docs/results.schema.json from them. A program that reads `rackrate.result.v1`
can rely on every field here. Unknown values are null, not missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.json_schema import GenerateJsonSchema

from rackrate.document import Document
from rackrate.measure.trials import Status
from rackrate.plan.arms import (
    Arm,
    EnaExpressUse,
    InstanceNetwork,
    Network,
    Node,
    PairZones,
    Via,
)
from rackrate.plan.estimate import Estimates
from rackrate.plan.model import Plan
from rackrate.plan.replacements import Replacement
from rackrate.results.workloads import WorkloadOfResults
from rackrate.selectors import SelectorField
from rackrate.settings import BandwidthWeighting
from rackrate.tools.base import Better
from rackrate.verdict.enough import Stopped
from rackrate.verdict.model import Difference, Mark, Summary, Verdict
from rackrate.verdict.together import Together
from rackrate_text.failures import Loss
from rackrate_text.words import several_runs

RESULTS: Literal["rackrate.result.v1"] = "rackrate.result.v1"
COMPARISON: Literal["rackrate.comparison.v1"] = "rackrate.comparison.v1"


class RunFacts(Document):
    """The run, or the comparison."""

    id: str
    """Name of the execution."""
    status: str
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    """How long it took: from the time its servers were ready until the results were written."""
    waited_seconds: float | None = None
    """Seconds from its start until its servers were ready; null if they never were."""
    lab_scale: float | None
    """Factor by which the lab scaled the nodes' network; null on AWS."""
    seed: int
    execution_arn: str
    error: str | None
    """Name of the error that ended it; null if it did not fail."""
    cause: str | None
    """The error in words."""


class Run(RunFacts):
    """The run."""

    status: Literal["succeeded", "degraded", "failed", "invalid"]


class ComparedRun(RunFacts):
    """The comparison."""

    status: Literal["compared"]


class MetricOfTest(Document):
    """What a test measures."""

    test: str
    metric: str
    unit: str
    better: Better
    statistic: str
    """How a trial's value is computed."""


class ArmNetwork(Document):
    """The bandwidth of an arm's instances, unscaled, and the scale."""

    baseline_bits_per_second: float | None
    peak_bits_per_second: float | None
    bandwidth_weighting: BandwidthWeighting
    scale: float | None


class ArmOfResults(Document):
    """An arm and its nodes."""

    name: str
    placement: str
    """The placement group's strategy; `none` without a group."""
    baseline: bool
    """Whether the others are compared with it."""
    stack_arm: str
    """The stack's arm whose nodes it uses."""
    client_network: Network
    server_network: Network
    via: Via = "pod"
    """What its clients connect to: `pod`, the server's own address, or `service`."""
    pairs: PairZones = "any"
    """Which of its nodes may be a pair."""
    node_groups: tuple[str, ...]
    selector: SelectorField
    """The label selector of its nodes."""
    ena_express: bool
    ena_express_use: EnaExpressUse | None
    """How far its nodes used ENA Express; null if it is off or was not read."""
    nodes: tuple[str, ...]
    node_facts: tuple[Node, ...]
    network: ArmNetwork

    @classmethod
    def of(cls, arm: Arm) -> ArmOfResults:
        """The arm in the format of `rackrate.result.v1`."""
        return cls.from_fields(
            arm,
            nodes=arm.node_names,
            node_facts=arm.nodes,
            network=ArmNetwork.from_fields(arm.network, scale=arm.network_scale),
        )

    def arm(self) -> Arm:
        """The arm again."""
        return Arm.from_fields(
            self,
            network=InstanceNetwork.from_fields(self.network),
            network_scale=self.network.scale,
            nodes=self.node_facts,
        )


def _arms_as_written(value: object) -> object:
    """Arms as results have them; pass anything else on for pydantic to reject."""
    if not isinstance(value, list):
        return value
    return tuple(ArmOfResults.from_json(each).arm() for each in value)


class Failure(Document):
    """A trial that ran and failed."""

    block: int
    arm: str
    test: str
    client: str
    server: str
    attempt: int
    reason: str


class LossOfTrials(Document):
    """A cause that cost trials."""

    cause: str
    """The reason, without what differs between equal ones, such as ids."""
    count: int
    where: tuple[str, ...]
    """The arms and nodes of these trials; empty if they never ran."""

    @property
    def loss(self) -> Loss:
        """The cause in words."""
        return Loss(self.count, self.cause, self.where)


class TrialCounts(Document):
    """Counts of the trials, without the warm-up; planned = measured + failed."""

    planned: int
    measured: int
    failed: int
    failures: tuple[Failure, ...]
    causes: tuple[LossOfTrials, ...] = ()
    """Why they failed, the most frequent cause first. Their counts add up to `failed`."""


class WarmUpTrial(Document):
    """A trial of the warm-up."""

    arm: str
    test: str
    client: str
    server: str
    status: Status
    metric: str
    value: float | None
    unit: str
    reason: str | None


class WarmUp(Document):
    """The warm-up, which no verdict, summary or count uses."""

    measured: int
    failed: int
    trials: tuple[WarmUpTrial, ...]


class Gauge(Document):
    """The readings of a value that rises and falls; null where it was not read."""

    before: int | None
    after: int | None


class CounterIncreases(Document):
    """The increase of the nodes' network counters during the run."""

    note: str | None
    """What could not be read."""
    nodes: dict[str, dict[str, dict[str, int | None]]]
    """Node to interface to counter; null if the counter was read only once or fell."""
    gauges: dict[str, dict[str, dict[str, Gauge]]]
    """Node to interface to gauge: what ENA's driver tells that is no counter."""


class Versions(Document):
    """Versions of the software in the run."""

    kubernetes: str | None
    image: str
    tools: tuple[str, ...]
    kernels: tuple[str, ...]
    network_drivers: tuple[str, ...]
    machine_images: tuple[str, ...]
    container_runtimes: tuple[str, ...]
    kubelets: tuple[str, ...]


class Findings(Document):
    """What the results of a run and a comparison have in common."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    version: Annotated[str, Field(alias="schema")]
    run: RunFacts
    conclusion: str
    """The verdicts in sentences, and what qualifies them."""
    method: str | None
    """How the figures were computed."""
    plan: Plan
    estimates: Estimates
    metrics: tuple[MetricOfTest, ...]
    arms: Annotated[
        tuple[Arm, ...],
        BeforeValidator(_arms_as_written),
        PlainSerializer(
            lambda arms: tuple(map(ArmOfResults.of, arms)),
            return_type=tuple[ArmOfResults, ...],
        ),
    ]
    trials: TrialCounts
    warm_up: WarmUp
    verdicts: tuple[Verdict, ...]
    regressions: tuple[Verdict, ...]
    """Each arm compared with itself in the runs that `compare_with` names."""
    regression_differences: tuple[Difference, ...] | None
    """The recorded differences from the earlier runs; null without an earlier run."""
    summaries: tuple[Summary, ...]
    marks: tuple[Mark, ...]
    mark_notes: tuple[str, ...]
    """The counts of the marks, in sentences."""
    warnings: tuple[str, ...]
    """Deviations from the plan."""
    counters: CounterIncreases | None
    """Null if nothing was counted."""
    versions: Versions


class Results(Findings):
    """The results of a rackrate run."""

    version: Annotated[Literal["rackrate.result.v1"], Field(alias="schema")] = RESULTS
    run: Run
    stopped: Stopped | None = None
    """Why it measured no more blocks; null if it did not look at its verdicts."""
    replacements: tuple[Replacement, ...] = ()
    """The nodes that took the places of lost ones while it measured."""
    together: tuple[Together, ...] = ()
    """How far the pairs of a round sent at the same time, by test; empty unless the plan's load is
    `together`."""
    workloads: tuple[WorkloadOfResults, ...] = ()
    """Each workload of the plan in each arm."""
    dns_nodes: tuple[str, ...] | None = None
    """The node of each pod that answered for the cluster's DNS when the run was planned; null if no
    test asks it, or they are not known."""


class Compared(Document):
    """Which runs were compared, and what differed between them."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    run: str
    other: Annotated[str, Field(alias="with")]
    """The other run's id; for several runs the name of their baseline, or such as `4 runs`."""
    with_runs: tuple[str, ...]
    """The ids of the other runs."""
    baseline: str | None
    """The baseline's name, if it stood for the other runs."""
    differences: tuple[Difference, ...]

    @property
    def others(self) -> str:
        """The other run's id; several runs such as `the 4 runs of main`."""
        if len(self.with_runs) > 1:
            return several_runs(self.other, len(self.with_runs))
        return self.other

    @property
    def other_name(self) -> str:
        """The other runs; one with its baseline's name if it has one."""
        is_named = self.baseline is not None and len(self.with_runs) == 1
        return f"{self.other} (baseline {self.baseline})" if is_named else self.others


class Comparison(Findings):
    """Two runs compared: laid out like a run whose arms are those of both."""

    version: Annotated[Literal["rackrate.comparison.v1"], Field(alias="schema")] = COMPARISON
    run: ComparedRun
    comparison: Compared


class _Untitled(GenerateJsonSchema):
    """A schema without the titles that pydantic derives from field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(model: type[Document], title: str) -> dict[str, Any]:
    """The JSON Schema of a document as it is written, draft 2020-12."""
    found = model.model_json_schema(mode="serialization", schema_generator=_Untitled)
    for each in (found, *found["$defs"].values()):
        # This includes a test's `tool`, which a plan may leave out.
        each["required"] = list(each["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": title,
    }


def schema() -> dict[str, Any]:
    """The JSON Schema of results.json."""
    return json_schema(Results, "Results of a rackrate run")
