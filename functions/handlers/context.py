"""The objects that all handlers share. Each function's process makes them once, on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from rackrate.errors import translated
from rackrate.resources import Resources
from rackrate.stages.run.finish import Ended
from rackrate_contract.document import Document, Json
from rackrate_contract.verdicts import Verdict

if TYPE_CHECKING:  # few functions need what these import
    from rackrate_contract.campaign import Answer
    from rackrate_contract.capacity import Capacity

logger = Logger()

NO_DIMENSIONS: Mapping[str, str] = {}
#: The largest value that CloudWatch accepts (PutMetricData in its API reference).
_LARGEST = 2.0**360
#: The words of verdicts as numbers, so that an alarm can watch for a change for the worse. An
#: inconclusive verdict has no number.
_WORDS = {"better": 1, "no meaningful difference": 0, "worse": -1}
#: The statuses that count as success or failure of the benchmark. A run that was refused, a dry run
#: and a run that a person stopped count as neither.
_GOOD = frozenset({"succeeded", "degraded"})
_BAD = frozenset({"failed", "timed_out"})


#: The stack's resources. Each one is made when a handler first uses it.
resources = Resources()


def entry_point(
    done: str, *logged: str, of: str = "run_id"
) -> Callable[[Callable[[Json], Document]], Callable[[Json, LambdaContext], Json]]:
    """Make a Lambda entry point of a function that takes the event and returns what to answer.

    Args:
        done: what the log says after it.
        logged: the fields of the answer that the log has, by default all.
        of: the field of the event with the id that each line of the log has.
    """

    def make(call: Callable[[Json], Document]) -> Callable[[Json, LambdaContext], Json]:
        @logger.inject_lambda_context(correlation_id_path=of)
        @translated()
        def handler(event: Json, context: LambdaContext) -> Json:
            response = call(event).to_json()
            logger.info(done, extra={name: response[name] for name in logged or response})
            return response

        return handler

    return make


@functools.cache
def _metrics() -> Metrics:
    """The metrics client; the template sets its namespace and its service, which is the stack."""
    return Metrics()


def put_metrics(
    unit: MetricUnit = MetricUnit.Count,
    dimensions: Mapping[str, str] = NO_DIMENSIONS,
    **values: float | None,
) -> None:
    """Write metrics into the log, where CloudWatch finds them (embedded metric format).

    Args:
        unit: the unit of all the values.
        dimensions: dimensions besides the service, which is the stack.
        values: values by metric name. None, and values too large for CloudWatch, are left out.
    """
    plottable = {n: v for n, v in values.items() if v is not None and abs(v) <= _LARGEST}
    if not plottable:
        return
    for name, text in dimensions.items():
        _metrics().add_dimension(name, text)
    for name, value in plottable.items():
        _metrics().add_metric(name, unit, value)
    _metrics().flush_metrics()


def put_ends(ended: Iterable[Ended]) -> None:
    """Count the runs and the campaigns whose end this invocation wrote."""
    for end in ended:
        if end.seconds is None:
            continue
        match end.kind, end.status in _GOOD, end.status in _BAD:
            case "run", True, _:
                put_metrics(RunsSucceeded=1)
            case "run", _, True:
                put_metrics(RunsFailed=1)
            case "campaign", True, _:
                put_metrics(CampaignsSucceeded=1)
            case "campaign", _, True:
                put_metrics(CampaignsFailed=1)
        if end.kind == "run":
            put_metrics(MetricUnit.Seconds, RunSeconds=end.seconds)
        for each in end.launches:
            if each.outcome != "failed":  # which says nothing about capacity
                share = float(each.outcome == "filled")
                put_metrics(MetricUnit.NoUnit, {"arm": each.arm}, RunFill=share)
                put_metrics(MetricUnit.Seconds, {"arm": each.arm}, RunFillSeconds=each.last_seconds)


def put_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Write each verdict as metrics: the ratio, the deciding interval, and the word."""
    for verdict in verdicts:
        low, high = verdict.shown_interval or (None, None)
        put_metrics(
            MetricUnit.NoUnit,
            {"test": verdict.test, "metric": verdict.metric, "arm": verdict.arm},
            Verdict=_WORDS.get(verdict.verdict),
            VerdictRatio=verdict.ratio,
            VerdictRatioLow=low,
            VerdictRatioHigh=high,
        )


def put_capacity(capacity: Iterable[Capacity]) -> None:
    """Write how often the nodes of each arm came as metrics, with the interval and the time.

    The values of a sweep have no dimension of their own, so they are left out.
    """
    for each in capacity:
        if each.value is not None:
            continue
        low, high = each.ci95
        put_metrics(
            MetricUnit.NoUnit,
            {"arm": each.arm},
            CampaignFill=each.share,
            CampaignFillLow=low,
            CampaignFillHigh=high,
        )
        put_metrics(MetricUnit.Seconds, {"arm": each.arm}, CampaignFillSeconds=each.median_seconds)


def put_answers(answers: Iterable[Answer]) -> None:
    """Write each answer of a campaign as metrics: the mean over draws, its interval, and more.

    `DrawsChanged` is the number of answers in which the newest draw differs from the draws of its
    series before it. It has no dimension, so that one alarm can watch all answers.
    """
    judged = list(answers)
    for answer in judged:
        low, high = answer.shown_interval or (None, None)
        put_metrics(
            MetricUnit.NoUnit,
            {"test": answer.test, "metric": answer.metric, "arm": answer.arm},
            CampaignRatio=answer.ratio,
            CampaignRatioLow=low,
            CampaignRatioHigh=high,
        )
    if changed := [answer.changed for answer in judged if answer.changed is not None]:
        put_metrics(DrawsChanged=sum(changed))
