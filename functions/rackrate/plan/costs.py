"""The estimated cost of a run: its usage times prices. Pure.

AWS bills these:
- Step Functions: each state transition, including those in a distributed map's child executions
  (https://aws.amazon.com/step-functions/pricing/).
- Lambda: each request, and its memory times its duration (https://aws.amazon.com/lambda/pricing/).
- EC2: each second that an instance runs (https://aws.amazon.com/ec2/pricing/on-demand/).
- EKS: each hour that a cluster exists (https://aws.amazon.com/eks/pricing/).
- Data between zones: on both sides, the bytes that leave the sender's zone and the bytes that enter
  the receiver's (https://docs.aws.amazon.com/cur/latest/userguide/cur-data-transfers-charges.html).

Free tiers apply to an account and a month, so the estimate leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackrate.plan import prices
from rackrate.plan.items import Item, MakeupItem
from rackrate.plan.prices import Price, Query
from rackrate_contract.estimates import Cost, CostLine
from rackrate_text.units import dollars, duration
from rackrate_text.words import listed

#: Memory of the functions in MB, as in templates/benchmark.yaml. A GB has 1024 MB here. Collect,
#: the analysis, each look and the report have a whole CPU.
FUNCTION_MEGABYTES, LARGE_MEGABYTES = 512, 1769
#: Mean duration of a call of any other function, with its share of the cold starts.
SECONDS_PER_INVOCATION = 1.0
#: What else the functions take, counted with 60 to 1002 simulated nodes (docs/scale.md): Launch for
#: a pod, Collect for a series and for a trial, an analysis for itself and for a trial, and the
#: report for itself and for a trial. For Await servers see `schedule.servers_seconds`.
SECONDS_PER_POD = 0.008
COLLECT_SECONDS, SECONDS_PER_COLLECTED = 3.0, 0.010
ANALYSIS_SECONDS, SECONDS_PER_ANALYZED = 2.0, 0.003
REPORT_SECONDS, SECONDS_PER_REPORTED = 4.0, 0.002
#: State transitions of a run in statemachine/benchmark.asl.yaml besides its items. The numbers
#: include a warm-up, two waits for the servers, and waking and resting the nodes.
RUN_TRANSITIONS = 41
RUN_INVOCATIONS = 18
#: A look at the verdicts, and the map and the choices of the batch before it.
LOOK_TRANSITIONS = 4
LOOK_INVOCATIONS = 1
#: An item pauses, launches, waits, and collects. Only tests of minutes are collected in two calls.
ITEM_TRANSITIONS = 7
ITEM_INVOCATIONS = 2
#: A make-up item that finds no missing trial.
MAKEUP_TRANSITIONS = 4
MAKEUP_INVOCATIONS = 1
#: A billed GB may be more than 10^9 bytes, so this errs on the high side.
BYTES_PER_GIGABYTE = 1e9

_BETWEEN_ZONES = "traffic between zones, billed to both sides"

NOT_INCLUDED = (
    "NAT gateways, volumes, addresses, VPC endpoints and the endpoint instance, which cost the same"
    " without a run",
    "requests and storage of S3 and DynamoDB, logs, traces and metrics: cents for a usual run",
    "trials that have to be repeated",
    "free tiers, discounts, savings plans, spot prices and taxes",
)

#: Only the prices of instance types can be unknown.
_GET_THE_PRICE = (
    "for the unknown price, let the plan function call pricing:GetProducts and reach the Internet,"
    " or see https://aws.amazon.com/ec2/pricing/on-demand/"
)


@dataclass(frozen=True)
class Usage:
    """The usage of a run.

    Attributes:
        seconds: the run's duration.
        nodes: number of nodes by instance type; None is an unknown type.
        state_transitions: number of state transitions.
        invocations: number of function calls.
        looks: how many of them are looks at the verdicts.
        cross_zone_bytes: bytes between nodes in different zones, each counted once.
        servers_seconds: how long it waits for its servers.
        series: how often it collects, the warm-up's included.
        pods: how many client pods these have.
        collected: how many trials.
        analyzed: how many of them its verdicts use.
        endpoints: the endpoints outside the cluster, in words.
    """

    seconds: float
    nodes: Mapping[str | None, int]
    state_transitions: int
    invocations: int
    cross_zone_bytes: int
    looks: int = 0
    servers_seconds: float = 0.0
    series: int = 0
    pods: int = 0
    collected: int = 0
    analyzed: int = 0
    endpoints: Sequence[str] = ()

    @property
    def gigabyte_seconds(self) -> float:
        """Memory times duration, summed over all calls."""
        analyses = 1 + self.looks
        others = (
            (self.invocations - 1 - analyses - self.series) * SECONDS_PER_INVOCATION
            + self.servers_seconds
            + self.pods * SECONDS_PER_POD
        )
        large = (
            self.series * COLLECT_SECONDS
            + self.collected * SECONDS_PER_COLLECTED
            + analyses * (ANALYSIS_SECONDS + self.analyzed * SECONDS_PER_ANALYZED)
            + REPORT_SECONDS
            + self.analyzed * SECONDS_PER_REPORTED
        )
        return (others * FUNCTION_MEGABYTES + large * LARGE_MEGABYTES) / 1024


def steps(items: Iterable[Item], looks: int) -> tuple[int, int]:
    """State transitions and function calls of a run, if no trial is lost.

    Args:
        items: the items of the warm-up and of the blocks that it measures.
        looks: how often it looks at its verdicts.
    """
    transitions = RUN_TRANSITIONS + looks * LOOK_TRANSITIONS
    invocations = RUN_INVOCATIONS + looks * LOOK_INVOCATIONS
    for item in items:
        makeup = isinstance(item, MakeupItem)
        transitions += MAKEUP_TRANSITIONS if makeup else ITEM_TRANSITIONS
        invocations += MAKEUP_INVOCATIONS if makeup else ITEM_INVOCATIONS
    return transitions, invocations


def queries(usage: Usage) -> list[Query]:
    """The prices that the estimate needs."""
    return [
        *(prices.instance_hour(name) for name in sorted(filter(None, usage.nodes))),
        prices.CLUSTER_HOUR,
        prices.STATE_TRANSITION,
        prices.LAMBDA_REQUEST,
        prices.LAMBDA_GIGABYTE_SECOND,
        *([prices.CROSS_ZONE_GIGABYTE] if usage.cross_zone_bytes else []),
    ]


def estimate(usage: Usage, by_query: Mapping[Query, Price], *, region: str) -> Cost:
    """The cost of a run in US dollars.

    Args:
        usage: the run's usage.
        by_query: a price for each of `queries(usage)`.
        region: the Region whose prices apply.
    """
    lines = _lines(usage, by_query)
    total = sum(line.usd or 0.0 for line in lines)
    of_run = sum(line.usd or 0.0 for line in lines if not line.paid_anyway)
    unknown = tuple(line.what for line in lines if line.usd is None)
    troubles = sorted({price.trouble for price in by_query.values() if price.trouble})
    notes = tuple(f"not all prices are the Price List API's: {why}" for why in troubles)
    not_included: tuple[str, ...] = NOT_INCLUDED
    if usage.endpoints:
        where = listed(usage.endpoints)
        unknown_zone = f"traffic with {where}, which AWS bills if it is in another zone or network"
        not_included = (unknown_zone, *NOT_INCLUDED)
    if any(price.usd is None for price in by_query.values()):
        notes = (*notes, _GET_THE_PRICE)
    return Cost(
        region=region,
        lines=tuple(lines),
        usd=total,
        usd_of_run=of_run,
        unknown=unknown,
        notes=notes,
        not_included=not_included,
        summary=_summary(usage, lines, unknown, notes),
    )


def _lines(usage: Usage, by_query: Mapping[Query, Price]) -> list[CostLine]:
    hours = usage.seconds / 3600
    nodes = [
        _line(
            f"EC2 {name}, {count} nodes" if name else f"EC2, {count} nodes of an unknown type",
            count * hours,
            "node-hour",
            by_query[prices.instance_hour(name)] if name else Price(None, "unknown"),
            paid_anyway=True,
        )
        for name, count in sorted(usage.nodes.items(), key=lambda entry: entry[0] or "")
    ]
    traffic = 2 * usage.cross_zone_bytes / BYTES_PER_GIGABYTE
    return [
        *nodes,
        _line(
            "EKS cluster", hours, "cluster-hour", by_query[prices.CLUSTER_HOUR], paid_anyway=True
        ),
        _line(
            "Step Functions",
            usage.state_transitions,
            "state transition",
            by_query[prices.STATE_TRANSITION],
        ),
        _line("Lambda requests", usage.invocations, "request", by_query[prices.LAMBDA_REQUEST]),
        _line(
            "Lambda duration",
            usage.gigabyte_seconds,
            "GB-second",
            by_query[prices.LAMBDA_GIGABYTE_SECOND],
        ),
        *(
            [_line(_BETWEEN_ZONES, traffic, "GB", by_query[prices.CROSS_ZONE_GIGABYTE])]
            if usage.cross_zone_bytes
            else []
        ),
    ]


def _line(
    what: str, quantity: float, unit: str, price: Price, *, paid_anyway: bool = False
) -> CostLine:
    return CostLine(
        what=what,
        quantity=quantity,
        unit=unit,
        usd_per_unit=price.usd,
        usd=None if price.usd is None else quantity * price.usd,
        source=price.source,
        paid_anyway=paid_anyway,
    )


def _summary(
    usage: Usage, costs: Sequence[CostLine], unknown: Sequence[str], notes: Sequence[str]
) -> tuple[str, ...]:
    total = sum(line.usd or 0.0 for line in costs)
    of_run = sum(line.usd or 0.0 for line in costs if not line.paid_anyway)
    lines = [
        f"about {dollars(total)} for {duration(usage.seconds)};"
        f" {dollars(total - of_run)} of it for nodes and cluster, which are paid as long as they"
        " are up, with or without a run",
    ]
    for line in costs:
        if line.what == _BETWEEN_ZONES and line.usd_per_unit is not None and line.usd is not None:
            gigabytes = f"{line.quantity / 2:.3g} GB"
            cents = f"{200 * line.usd_per_unit:.3g} cents per GB"
            lines.append(
                f"{dollars(line.usd)} of it for at most {gigabytes} between zones, at {cents}:"
                " both sides are billed"
            )
    if unknown:
        lines.append(f"without {', '.join(unknown)}: the price is not known")
    return (*lines, *notes)
