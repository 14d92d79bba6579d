"""The model of results.json.

`make docs` generates docs/results.schema.json from it. A program that reads `rackrate.result.v1`
can rely on every field here. Unknown values are null, not missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rackrate_contract.arms import ArmsOfResults, Node
from rackrate_contract.capacity import Launch, how_they_came
from rackrate_contract.document import Document, Json
from rackrate_contract.estimates import Estimates
from rackrate_contract.ranking import Ranking
from rackrate_contract.trials import Mark, TrialCounts, WarmUp
from rackrate_contract.verdicts import Difference, OnMetric, Summary, Verdict
from rackrate_text.words import counted

RESULTS: Literal["rackrate.result.v1"] = "rackrate.result.v1"
LoadFrom = Literal["load nodes", "nodes of the arm"]


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


class MetricOfTest(OnMetric):
    """What a test measures."""

    statistic: str
    """How a trial's value is computed."""


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
    """Node to interface to gauge: what ENA's driver reports that is no counter."""


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
    plan: Json
    """As the stack completed it."""
    estimates: Estimates
    metrics: tuple[MetricOfTest, ...]
    arms: ArmsOfResults
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

    @property
    def marked(self) -> int:
        """How many trials have a mark."""
        return len({mark.key for mark in self.marks})


class Stopped(Document):
    """Why a run that looks at its verdicts measured no more blocks."""

    after_blocks: int
    most_blocks: int
    """How many it would have measured at most."""
    why: Literal["settled", "no prospect", "most"]
    """`no prospect`: more blocks would hardly settle another verdict."""
    settled: int
    verdicts: int
    """Those between the arms, which are all that a look judges."""
    text: str
    """The same in a sentence."""

    def beside(self, regressions: Sequence[Verdict]) -> Stopped:
        """The same, with how many of a run's comparisons with earlier runs are open.

        Their interval is over runs, so no number of blocks settles them, and no look judges them.
        """
        still_open = sum(not verdict.is_decided for verdict in regressions)
        if not still_open:
            return self
        verb = "is" if still_open == 1 else "are"
        of_runs = f"{still_open} of {counted(len(regressions), 'comparison')} with earlier runs"
        text = f"{self.text} {of_runs} {verb} open, which more blocks would not settle."
        return self.model_copy(update={"text": text})


class Replacement(Document):
    """Another node in the place of a lost one, from one block of a run on."""

    place: str
    """The place: the name of the node that the plan found there."""
    arm: str
    """The stack's arm."""
    lost: str
    """The node that was lost."""
    why: str
    """How it was lost."""
    node: Node
    """The node that took its place."""
    block: int
    """The first block with it; 0 is the warm-up, or earlier."""
    at: str
    """ISO 8601, UTC."""

    @property
    def since(self) -> str:
        """When it came, in words."""
        return f"in block {self.block}" if self.block else "before block 1"

    def __str__(self) -> str:
        """A sentence for people."""
        return (
            f"The node {self.lost} of {self.arm} was replaced by {self.node.name} {self.since},"
            f" because it {self.why}. From there on, its pairs are a new placement."
        )


class RoundApart(Document):
    """A round whose pairs did not send at the same time for `LEAST_OVERLAP` of a test."""

    block: int
    round: int
    start_spread_seconds: float
    overlap: float


class Together(Document):
    """How far the pairs of each round ran a test at the same time, over the rounds of a run.

    The starts are those that the tool itself reports, or else those of the containers, in whole
    seconds by the nodes' clocks.
    """

    test: str
    rounds: int
    """How many rounds had two measured pairs or more."""
    pairs: int
    """The most pairs in one of them."""
    start_spread_seconds: float
    """From the first to the last start: the median of the rounds."""
    most_start_spread_seconds: float
    overlap: float
    """The share of the test that all pairs were sending: the median of the rounds."""
    least_overlap: float
    apart: tuple[RoundApart, ...]
    """The rounds that certainly did not overlap by 80 %."""


class MemberStart(Document):
    """How a member of a workload started."""

    name: str
    """Its host name."""
    node: str
    created_at: str | None
    """ISO 8601; null if there is no pod."""
    started_at: str | None
    """When its container started; null if it did not."""
    ready_at: str | None
    """When its pod was ready; null if it was not."""
    failure: str | None
    """Why it was not ready; null if it was."""


class PhasesOfWorkload(Document):
    """How long each phase of a workload took in an arm, in seconds; null where it was not seen."""

    start: float | None
    """From the first member's pod until all containers ran, the pull of images included."""
    ready: float | None
    """From then until all members were ready."""
    load: float | None
    """Loading data; null for a workload without data."""
    settle: float
    """The rest before the first measurement, as the plan asks."""
    measure: float | None
    """All its trials, without the time between them."""


class WorkloadOfResults(Document):
    """A workload in an arm."""

    test: str
    arm: str
    members: tuple[MemberStart, ...]
    load_from: LoadFrom
    """Where its load came from: the stack's load nodes, or nodes of the arm without a member."""
    load_nodes: tuple[str, ...]
    """The nodes of its load pods."""
    storage: str
    """Where members kept their data: `memory`, `node`, or such as `20 GiB of gp3`."""
    phases: PhasesOfWorkload
    members_cpu_percent: float | None
    """CPU time of its members, mean over them, median of the trials; 100 % is one CPU. Null if it
    was not read."""
    busiest_member_cpu_percent: float | None
    """CPU time of the member that used most, median of the trials."""


class Results(Findings):
    """The results of a rackrate run."""

    version: Annotated[Literal["rackrate.result.v1"], Field(alias="schema")] = RESULTS
    run: Run
    stopped: Stopped | None = None
    """Why it measured no more blocks; null if it did not look at its verdicts."""
    launches: tuple[Launch, ...] = ()
    """How the nodes came that it woke, or with which the stack was created; empty if that is not
    known."""
    replacements: tuple[Replacement, ...] = ()
    """The nodes that took the places of lost ones while it measured."""
    together: tuple[Together, ...] = ()
    """How far the pairs of a round sent at the same time, by test; empty unless the plan's load is
    `together`."""
    rankings: tuple[Ranking, ...] = ()
    """The nodes of each arm that its pairs cover (ring, mesh, random), ranked."""
    workloads: tuple[WorkloadOfResults, ...] = ()
    """Each workload of the plan in each arm."""
    dns_nodes: tuple[str, ...] | None = None
    """The node of each pod that answered for the cluster's DNS when the run was planned; null if no
    test asks it, or they are not known."""

    @property
    def how_nodes_came(self) -> str:
        """How the nodes of each arm came, in a sentence; empty if that is not known."""
        lead = "Capacity" if self.woke_nodes else "Capacity at the stack's creation"
        return how_they_came(self.launches, lead)

    @property
    def woke_nodes(self) -> bool:
        """Whether it launched nodes itself."""
        return any(each.began_at >= self.run.started_at for each in self.launches)
