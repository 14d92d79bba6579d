"""A sweep's values against the first, its shares of the nominal bandwidth, and its growth."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import registry
from rackrate.verdict.sweeps import SweepRun, conclusion, growth, growths, sweep_cells
from rackrate_contract.verdicts import OnMetric
from tests.unit.builders import C5_LARGE, arm, plan, planned_run
from tests.unit.report.samples import summary

OLD, NEW = "v1.14.1", "v1.15.4"


def run(value, median, *, nodes=2, metric="throughput", test="tcp-1", unit="bit/s", **more):
    better = "lower" if unit == "s" else "higher"
    planned = planned_run(
        plan(**more),
        [arm("treatment", [f"n{n:03}" for n in range(nodes)], network=C5_LARGE)],
        metrics=(OnMetric(test=test, metric=metric, unit=unit, better=better),),
    )
    figures = summary(test=test, metric=metric, unit=unit, arm="treatment", median=median)
    return SweepRun(value, planned, [figures])


def cells(*runs, threshold=0.05, **more):
    return sweep_cells(runs, threshold=threshold, **more)


def medians(rates, **more):
    return [run(value, median, **more) for value, medians in rates.items() for median in medians]


# -- the cells


def test_each_value_is_compared_with_the_first():
    first, second = cells(*medians({OLD: [9.50e9, 9.52e9], NEW: [4.75e9, 4.76e9]}))
    assert (first.value, first.ratio, first.ci95, first.verdict) == (OLD, None, None, None)
    assert second.ratio == pytest.approx(0.5, rel=1e-3)
    assert (second.verdict, second.reason, second.runs) == ("worse", None, 2)
    assert second.ci95[0] < 0.5 < second.ci95[1]


def test_the_mean_is_geometric_and_its_share_of_the_peak_is_told():
    (cell,) = cells(*medians({OLD: [8e9, 9.5e9]}))
    assert cell.mean == pytest.approx(math.sqrt(8e9 * 9.5e9))
    assert cell.share_of_nominal == pytest.approx(cell.mean / 10e9)


def test_a_time_has_no_share_of_a_bandwidth():
    (cell,) = cells(run(OLD, 1e-4, test="rtt", metric="rtt", unit="s"))
    assert (cell.share_of_nominal, cell.total, cell.better) == (None, None, "lower")


def test_equal_values_show_no_meaningful_difference():
    result = cells(*medians({OLD: [9.50e9, 9.52e9], NEW: [9.51e9, 9.50e9]}))
    assert result[1].verdict == "no meaningful difference"


def test_all_values_share_one_variance_within_values():
    rates = {OLD: [9.0e9, 9.1e9], NEW: [9.0e9, 9.1e9]}
    calm = {"third": [9.0e9, 9.0e9], "fourth": [9.0e9, 9.0e9]}
    alone, beside = cells(*medians(rates))[1], cells(*medians(rates | calm))[1]
    assert beside.ci95[1] - beside.ci95[0] < alone.ci95[1] - alone.ci95[0]


def test_a_number_of_nodes_has_a_variance_of_its_own():
    rates = {2: [9.0e9, 9.1e9, 9.2e9], 4: [9.0e9, 9.1e9, 9.2e9]}
    calm = {8: [9.1e9] * 3, 16: [9.1e9] * 3}
    alone = cells(*medians(rates), grows=True)[1]
    beside = cells(*medians(rates | calm), grows=True)
    assert beside[1].ci95 == alone.ci95
    # Welch's: 2 to 4 degrees of freedom; all of the variance is the first number's.
    log = math.log(beside[2].ci95[1] / beside[2].ci95[0]) / 2
    logs = [math.log(each) for each in rates[2]]
    assert log == pytest.approx(4.3027 * statistics.stdev(logs) / math.sqrt(3), rel=1e-3)


def test_one_run_of_each_value_has_a_ratio_but_no_interval():
    cell = cells(run(OLD, 9e9), run(NEW, 4.5e9))[1]
    assert (cell.ratio, cell.ci95, cell.verdict) == (pytest.approx(0.5), None, "inconclusive")
    assert "needs two" in cell.reason


def test_a_value_without_a_result_is_told_and_not_compared():
    lost = cells(*medians({OLD: [9e9, 9.1e9], NEW: [None, None]}))[1]
    assert (lost.mean, lost.ratio, lost.verdict, lost.runs) == (None, None, "inconclusive", 0)
    missing = cells(*medians({OLD: [None], NEW: [9e9, 9.1e9]}))[1]
    assert "the first value" in missing.reason


def test_the_total_counts_the_pairs_that_run_at_the_same_time():
    growing = {"pairing": "ring", "load": "together"}
    alone = cells(run(8, 1e9, nodes=8, **growing), grows=True)[0]
    assert alone.total == pytest.approx(4e9)
    isolated = cells(run(8, 1e9, nodes=8, pairing="ring"), grows=True)[0]
    assert isolated.total == pytest.approx(1e9)
    assert cells(run(8, 1e9, nodes=8))[0].total is None


class Store(registry.test_class("ping")):
    """A tool that stands in for a workload: each value of its rate is one member's."""

    members: int = 1

    @property
    def member_count(self):
        return self.members


def store(nodes, members, rate, latency=None):
    """A run of a workload with so many members."""
    base = run(nodes, rate, nodes=nodes, metric="operations", test="rtt", unit="operations/s")
    test = Store(name="rtt", tool="ping", members=members)
    summaries = [*base.summaries]
    metrics = [*base.planned.metrics]
    if latency is not None:
        of_time = run(nodes, latency, metric="latency", test="rtt", unit="s")
        summaries += of_time.summaries
        metrics += of_time.planned.metrics
    planned = base.planned.model_copy(
        update={
            "plan": base.planned.plan.model_copy(update={"tests": (test,)}),
            "metrics": tuple(metrics),
        }
    )
    return SweepRun(nodes, planned, summaries)


def test_a_workloads_rate_per_member_adds_up_over_its_members_and_its_latency_stands_beside():
    """The figures of AWS and DataStax: per database node, 1002 of them make 8.49 million."""
    figures = {15: (11412, 5.3e-3), 60: (11734, 5.6e-3), 150: (8819, 6.2e-3), 1002: (8473, 7.7e-3)}
    result = cells(
        *(
            store(nodes, nodes, rate * noise, latency)
            for nodes, (rate, latency) in figures.items()
            for noise in (0.99, 1.01)
        ),
        grows=True,
    )
    rates = [cell for cell in result if cell.metric == "operations"]
    assert rates[-1].total == pytest.approx(8.49e6, rel=1e-3)
    assert [cell.ratio for cell in rates[1:]] == pytest.approx([1.028, 0.773, 0.742], abs=1e-3)
    assert [cell.verdict for cell in rates[1:]][1:] == ["worse", "worse"]
    [text] = growths(result)
    assert text.startswith(
        "From 15 to 1002 nodes the growth of rtt operations of treatment is less"
    )
    assert "efficiency per node 74.2 % (" in text
    assert "latency 5.30 ms at 15, 5.60 ms at 60, 6.20 ms at 150, 7.70 ms at 1002" in text


def test_a_workload_of_one_size_does_not_grow_with_the_nodes():
    result = cells(*(store(nodes, 3, 9e3) for nodes in (4, 8) for _ in range(2)), grows=True)
    assert [cell.total for cell in result] == [None, None]
    assert growths(result) == []


@given(
    st.lists(st.lists(st.floats(1e6, 1e11), min_size=1, max_size=3), min_size=1, max_size=4),
    st.floats(0.1, 10),
)
def test_the_unit_of_measurement_does_not_matter(rates, factor):
    values = dict(enumerate(rates))
    one = cells(*medians(values))
    other = cells(*medians({n: [v * factor for v in each] for n, each in values.items()}))
    for here, there in zip(one, other, strict=True):
        assert there.mean == pytest.approx(here.mean * factor)
        assert there.ratio == (None if here.ratio is None else pytest.approx(here.ratio, rel=1e-6))
        assert (here.verdict is None) == (here.value == 0)


# -- the sentences


def tiers(*medians_of, nodes=(15, 60, 150)):
    rates = dict(zip(nodes, medians_of, strict=True))
    return cells(*medians(rates), grows=True)


def test_growth_that_keeps_its_efficiency_is_near_linear():
    result = tiers([9.5e9, 9.51e9], [9.5e9, 9.49e9], [9.45e9, 9.46e9])
    text = growth(result)
    assert text.startswith(
        "From 15 to 150 nodes the growth of tcp-1 throughput of treatment is near-linear:"
    )
    assert "efficiency per node 99.5 %" in text
    assert "at 150 nodes" in text


def test_growth_that_loses_its_efficiency_is_less_than_linear():
    text = growth(tiers([9.5e9, 9.51e9], [9.5e9, 9.49e9], [7.0e9, 7.02e9]))
    assert "is less than linear: efficiency per node 73.8 %" in text


def test_growth_whose_interval_is_too_wide_is_open():
    text = growth(tiers([9.5e9, 8.5e9], [9.4e9, 8.6e9], [9.0e9, 8.5e9]))
    assert "is not settled, near-linear or not" in text


def test_growth_with_a_tier_without_a_result_is_not_known():
    assert "not known" in growth(tiers([9.5e9, 9.5e9], [None, None], [9.5e9, 9.4e9]))
    assert "not known" in growth(tiers([9.5e9, 9.5e9], nodes=(15,)))


def test_the_conclusion_names_each_value_with_its_share_ratio_and_word():
    result = cells(*medians({OLD: [9.50e9, 9.52e9], NEW: [9.51e9, 9.50e9]}))
    text = conclusion(result, title="VPC CNI {}".format)
    assert text.startswith(
        "tcp-1 throughput of treatment: 9.51 Gbit/s (95.1 % of nominal) with VPC CNI v1.14.1; "
    )
    assert "with VPC CNI v1.15.4, −0.1 % (95 % CI " in text
    assert "no meaningful difference." in text
    assert "linear" not in text
    assert "near-linear" in conclusion(tiers([9e9, 9e9], [9e9, 9e9], [9e9, 9e9]), grows=True)
    assert conclusion(()).startswith("Nothing can be said")
