"""What results.json holds: the models that docs/results.schema.json is made of.

A program that reads `rackrate.result.v1` may rely on every field that stands here. What is not
known is null, never left out.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from rackrate import tools
from rackrate.plan_fields import ArmModel, PairingModel
from rackrate.schedule import Direction, Load, Network
from rackrate.tools import TestBase

#: What is wrong with a document is said of so many places at most.
_FAULTS_SHOWN = 5

Interval = tuple[float, float]
Word = Literal["better", "worse", "no meaningful difference", "inconclusive"]
Better = Literal["higher", "lower"]
Status = Literal["succeeded", "degraded", "failed", "invalid"]
#: A test of the plan with all its options; the tool says which.
if TYPE_CHECKING:
    Test = TestBase
else:
    Test = Annotated[
        functools.reduce(operator.or_, map(tools.test_class, tools.names())),
        Field(discriminator="tool"),
    ]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class Run(_Model):
    """The run."""

    id: str
    """Name of the execution."""
    status: Status
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    """From the start until the results were written."""
    lab_scale: float | None
    """Factor by which the nodes' network was scaled on purpose; null on AWS."""
    seed: int
    execution_arn: str
    error: str | None
    """Why it failed, a name."""
    cause: str | None
    """Why it failed, in words."""


class Plan(_Model):
    """The plan with every default filled in; plan.schema.json describes what may be asked."""

    arms: list[str | ArmModel]
    baseline: str
    tests: list[Test]
    blocks: int
    pairing: PairingModel
    direction: Direction
    load: Load
    warm_up: bool
    compare_with: str | None
    seed: int
    threshold: float
    tolerated_loss: float
    dry_run: bool


class Traffic(_Model):
    """Bytes that a node is expected to exchange, at most."""

    sent: int
    received: int


class CostLine(_Model):
    """A line of the estimated cost."""

    what: str
    quantity: float
    unit: str
    usd_per_unit: float | None
    usd: float | None
    source: str
    paid_anyway: bool
    """Is it paid without the run too?"""


class Cost(_Model):
    """The estimated cost, in US dollars."""

    region: str
    lines: list[CostLine]
    usd: float
    usd_of_run: float
    """What would not be paid without the run."""
    unknown: list[str]
    notes: list[str]
    not_included: list[str]
    summary: list[str]


class Guard(_Model):
    """A check of the plan before it ran."""

    guard: str
    would_trip: bool
    text: str
    remedy: str


class Estimates(_Model):
    """What was expected before the run."""

    seconds: float
    block_seconds: float
    trials: int
    bytes_per_node: dict[str, Traffic]
    state_transitions: int
    cost: Cost
    guards: list[Guard]


class MetricOfTest(_Model):
    """What a test measures."""

    test: str
    metric: str
    unit: str
    better: Better
    statistic: str
    """How a trial's value comes about."""


class NodeFacts(_Model):
    """What a node told of itself."""

    name: str
    instance_id: str | None
    instance_type: str | None
    zone: str | None
    region: str | None
    image: str | None
    """The machine image."""
    architecture: str | None
    node_group: str | None
    kernel: str | None
    os_image: str | None
    kubernetes: str | None
    """The kubelet's version."""
    container_runtime: str | None
    cpus: int | None
    network_scale: float | None
    network_layers: list[str]
    """The node's place in EC2's network, from the top, where EC2 tells."""
    cni: str | None
    """Image of the VPC CNI, name and tag; null where there is none, or while it is updated."""


class ArmNetwork(_Model):
    """The bandwidth of an arm's instance type, unscaled, and the scale."""

    baseline_bits_per_second: float | None
    peak_bits_per_second: float | None
    scale: float | None


class Arm(_Model):
    """An arm and its nodes."""

    name: str
    placement: str
    """The placement group's strategy; `none` without a group."""
    baseline: bool
    """Is it what the others are compared with?"""
    stack_arm: str
    """The stack's arm whose nodes it uses."""
    client_network: Network
    server_network: Network
    node_group: str
    ena_express: bool
    nodes: list[str]
    node_facts: list[NodeFacts]
    network: ArmNetwork


class TrialName(_Model):
    """What names a trial."""

    block: int
    arm: str
    test: str
    client: str
    server: str


class Failure(TrialName):
    """A trial that ran and failed."""

    attempt: int
    reason: str


class Trials(_Model):
    """The trials counted, without the warm-up; planned = measured + failed."""

    planned: int
    measured: int
    failed: int
    failures: list[Failure]


class WarmUpTrial(_Model):
    """A trial of the warm-up."""

    arm: str
    test: str
    client: str
    server: str
    status: Literal["measured", "failed"]
    metric: str
    value: float | None
    unit: str
    reason: str | None


class WarmUp(_Model):
    """The warm-up, which no verdict, summary or count uses."""

    measured: int
    failed: int
    trials: list[WarmUpTrial]


class Pairs(_Model):
    """How many pairs of nodes a verdict rests on."""

    arm: int
    baseline: int


class Ceiling(_Model):
    """The documented limit of a throughput; limits in bit/s, after scaling."""

    name: str
    arm: float
    baseline: float
    source: str
    arm_share: float | None
    """The arm's median as a share of its limit."""
    baseline_share: float | None
    explains: bool
    """Do the limits explain how the arms compare?"""
    text: str


class Steadiness(_Model):
    """How much the arms scatter."""

    arm: float | None
    baseline: float | None
    ratio: float | None
    ci95: Interval | None
    verdict: Word
    reason: str | None


class Verdict(_Model):
    """An arm compared with the baseline, or with itself in an earlier run, on one metric."""

    test: str
    metric: str
    unit: str
    better: Better
    arm: str
    baseline: str
    """The baseline's name; `run <id>` for an earlier run."""
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None
    """Of the geometric means, arm to baseline."""
    ci95: Interval | None
    """The 95 % interval of the ratio by itself."""
    ci_simultaneous: Interval | None
    """The interval that decides: all those of the run hold at once with 95 %."""
    confidence_simultaneous: float | None
    verdict: Word
    reason: str | None
    """Why it is inconclusive."""
    blocks: int
    pairs: Pairs
    scope: Literal["these nodes", "the placement"]
    claim: str
    more_blocks: int | None
    """How many more blocks would settle it."""
    more_pairs: int | None
    """How many more pairs of each arm would settle it."""
    threshold: float
    """The share below which a difference does not matter."""
    ceiling: Ceiling | None
    marks: dict[str, int]
    """How many of its trials bear each mark."""
    steadiness: Steadiness | None


class Percentiles(_Model):
    """Of all raw values of an arm, pooled, in the metric's unit; null where they are too few."""

    p50: float | None
    p90: float | None
    p99: float | None
    p99_9: float | None
    samples: int
    """How many values these are of."""


class Summary(_Model):
    """What an arm came to on one metric."""

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


class Mark(TrialName):
    """What is to be known of a trial."""

    mark: str
    text: str


class Counters(_Model):
    """By how much the counters of the nodes' network interfaces rose during the run."""

    note: str | None
    """What could not be read."""
    nodes: dict[str, dict[str, dict[str, int | None]]]
    """Node to interface to counter; null where it was read once or fell."""


class Versions(_Model):
    """Versions of what took part."""

    kubernetes: str
    image: str
    tools: list[str]
    kernels: list[str]
    machine_images: list[str]
    container_runtimes: list[str]
    kubelets: list[str]


class Difference(_Model):
    """What differed between two runs."""

    what: str
    """Such as `kernel`, or `zone of baseline` where only one arm differs."""
    run: str
    """Its value in this run."""
    other: Annotated[str, Field(alias="with")]
    """Its value in the other run."""


class Results(_Model):
    """The results of a rackrate run."""

    version: Annotated[Literal["rackrate.result.v1"], Field(alias="schema")]
    run: Run
    conclusion: str
    """The verdicts in sentences, and what qualifies them."""
    method: str | None
    """How the figures came about."""
    plan: Plan
    estimates: Estimates
    metrics: list[MetricOfTest]
    arms: list[Arm]
    trials: Trials
    warm_up: WarmUp
    verdicts: list[Verdict]
    regressions: list[Verdict]
    """Each arm against itself in the run that `compare_with` names."""
    regression_differences: list[Difference] | None
    """What differed between the two runs, as far as it is recorded; null without an earlier run."""
    summaries: list[Summary]
    marks: list[Mark]
    mark_notes: list[str]
    """The marks counted, in sentences."""
    warnings: list[str]
    """What went otherwise than planned."""
    counters: Counters | None
    """Null when nothing was counted."""
    versions: Versions


class _Untitled(GenerateJsonSchema):
    """A schema without the titles that pydantic makes of fields' names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """The JSON Schema of results.json, draft 2020-12."""
    found = Results.model_json_schema(mode="serialization", schema_generator=_Untitled)
    for model in found["$defs"].values():
        # Also of a test, though its tool need not be said in a plan.
        model["required"] = list(model["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Results of a rackrate run",
    }


def faults(results: Mapping[str, Any]) -> list[str]:
    """Where a document is not what the schema says, in words; empty when it is valid."""
    try:
        # As JSON, for a list of two is an interval only there.
        Results.model_validate_json(json.dumps(results))
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        more = len(found) - _FAULTS_SHOWN
        return [*found[:_FAULTS_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return []
