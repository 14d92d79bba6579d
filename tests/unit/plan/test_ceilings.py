"""The documented limits in the cases of EC2's documentation, and what they explain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import registry
from rackrate.plan.ceilings import (
    ENA_EXPRESS_GUIDE,
    GUIDE,
    NEAR,
    PLAN,
    WEIGHTING_GUIDE,
    Limit,
    arm_limit,
    bandwidth_weighting,
    ceiling,
    explain,
    instance_network,
    limit_for,
)
from rackrate.tools.base import Throughput
from rackrate_contract.arms import EnaExpressUse
from tests.unit.builders import C5_LARGE, arm, network

STEADY = network(50e9, 50e9)
UNKNOWN = network(None, None)
ENA_EXPRESS_FLOW = "single-flow with ENA Express"


def of(flows, placement, bandwidth=C5_LARGE, *, directions=1, offered=None, **more):
    sent = Throughput(flows, reverse=directions == 2, offered_bits_per_second=offered)
    return arm_limit(arm("any", placement=placement, network=bandwidth, **more), sent)


class TestWhichLimitBinds:
    @pytest.mark.parametrize(
        ("flows", "placement", "name", "size"),
        [
            (1, "cluster", "single-flow", 10e9),
            (1, "none", "single-flow", 5e9),
            (1, "spread", "single-flow", 5e9),
            (1, "partition", "single-flow", 5e9),
            (1, "precision-time", "single-flow", 5e9),
            (8, "cluster", "instance peak", 10e9),
            (8, "none", "instance peak", 10e9),
        ],
    )
    def test_c5_large(self, flows, placement, name, size):
        assert of(flows, placement) == Limit(name, size, GUIDE, 0.75e9)

    @pytest.mark.parametrize(
        ("flows", "placement", "instance", "limit"),
        [
            (4, "none", STEADY, Limit("single-flow", 20e9)),
            (32, "none", STEADY, Limit("instance baseline", 50e9)),
            (1, "cluster", network(0.5e9, 2e9), Limit("instance peak", 2e9, GUIDE, 0.5e9)),
            (8, "cluster", UNKNOWN, Limit("single-flow", 80e9)),
        ],
    )
    def test_the_flows_or_the_instance_bind_whichever_is_less(
        self, flows, placement, instance, limit
    ):
        assert of(flows, placement, instance) == limit

    def test_a_scaled_network_scales_its_limits_and_what_a_burst_leaves(self):
        assert of(1, "cluster", network_scale=0.1) == Limit("single-flow", 1e9, GUIDE, 0.075e9)

    def test_latency_has_no_ceiling(self):
        assert ceiling(None, None) is None

    @pytest.mark.parametrize(
        ("flows", "bandwidth", "expected"),
        [
            (1, STEADY, Limit(ENA_EXPRESS_FLOW, 25e9, ENA_EXPRESS_GUIDE)),
            (8, STEADY, Limit("instance baseline", 50e9)),
            # "up to the aggregate instance limit"
            (1, network(6.25e9, 12.5e9), Limit("instance peak", 12.5e9, GUIDE, 6.25e9)),
        ],
    )
    @pytest.mark.parametrize("placement", ["cluster", "none"])
    def test_ena_express_raises_one_flow_with_and_without_a_placement_group(
        self, flows, bandwidth, expected, placement
    ):
        assert of(flows, placement, bandwidth, ena_express=True) == expected

    def test_ena_express_that_is_on_and_unused_leaves_the_limits_without_it(self):
        unused, used = EnaExpressUse(eligible=9, sent=0), EnaExpressUse(eligible=9, sent=8)
        plain = of(1, "cluster", STEADY)
        assert of(1, "cluster", STEADY, ena_express=True, ena_express_use=unused) == plain
        limit = of(1, "cluster", STEADY, ena_express=True, ena_express_use=used)
        assert limit.bits_per_second == 25e9

    @pytest.mark.parametrize(
        ("region", "zones", "size"),
        [
            ("us-east-1", ("us-east-1a", "us-east-1b"), 25e9),
            ("sa-east-1", ("sa-east-1a", "sa-east-1b"), 5e9),
            ("sa-east-1", ("sa-east-1a", "sa-east-1a"), 25e9),
        ],
    )
    def test_ena_express_works_across_zones_but_in_a_few_regions(self, region, zones, size):
        spanning = arm("any", ["a", "b"], ena_express=True, network=STEADY)
        nodes = tuple(
            node.model_copy(update={"region": region, "zone": zone})
            for node, zone in zip(spanning.nodes, zones, strict=True)
        )
        spanning = spanning.model_copy(update={"nodes": nodes})
        assert arm_limit(spanning, Throughput(1)).bits_per_second == size

    @pytest.mark.parametrize("weighting", ["vpc-1", "ebs-1"])
    def test_a_bandwidth_weighting_names_itself_and_its_source(self, weighting):
        weighted = STEADY.model_copy(update={"bandwidth_weighting": weighting})
        limit = of(32, "none", weighted)
        assert limit == Limit(f"instance baseline ({weighting})", 50e9, WEIGHTING_GUIDE)
        assert of(1, "cluster", weighted) == of(1, "cluster", STEADY)

    def test_a_rate_the_test_limits_itself_to_binds_when_it_is_the_lowest(self):
        assert of(1, "none", STEADY, offered=1e9) == Limit("offered rate", 1e9, PLAN)
        assert of(1, "none", STEADY, offered=6e9) == Limit("single-flow", 5e9)

    def test_a_scaled_network_binds_below_a_rate_that_is_not_scaled(self):
        limit = of(1, "none", STEADY, network_scale=0.1, offered=1e9)
        assert limit == Limit("single-flow", 0.5e9)

    def test_a_burst_that_is_over_is_no_matter_to_a_rate_below_the_baseline(self):
        limit = of(1, "none", offered=0.5e9)
        assert limit == Limit("offered rate", 0.5e9, PLAN, None)

    def test_each_direction_has_the_limit_by_itself(self):
        assert of(1, "none", directions=2) == Limit("single-flow", 10e9, GUIDE, 1.5e9)
        offered = of(1, "none", STEADY, directions=2, offered=1e9)
        assert offered == Limit("offered rate", 2e9, PLAN)

    @given(
        flows=st.integers(1, 128),
        placement=st.sampled_from(["cluster", "none", "spread", "partition"]),
        ena_express=st.booleans(),
        peak=st.floats(1e8, 1e11),
        share=st.floats(0.05, 1),
        scale=st.floats(0.01, 1),
    )
    def test_no_limit_is_above_the_instances_peak_and_every_one_scales(
        self, flows, placement, ena_express, peak, share, scale
    ):
        bandwidth = network(peak * share, peak)
        full = of(flows, placement, bandwidth, ena_express=ena_express)
        scaled = of(flows, placement, bandwidth, network_scale=scale, ena_express=ena_express)
        assert full.bits_per_second <= peak
        assert scaled.bits_per_second == pytest.approx(full.bits_per_second * scale)
        if full.sustained_bits_per_second is not None:
            assert full.sustained_bits_per_second < full.bits_per_second


class TestWhatArmsAndTestsBring:
    def test_ena_express_is_the_arms_own_and_the_instances_peak_still_binds(self):
        assert arm_limit(arm("a"), Throughput(1)).bits_per_second == 5e9
        assert arm_limit(arm("a", ena_express=True), Throughput(1)).bits_per_second == 10e9

    def test_an_arm_in_the_nodes_own_network_has_the_same_limits(self):
        host = arm("a", placement="cluster", client_network="host", server_network="host")
        assert arm_limit(host, Throughput(1)) == of(1, "cluster")

    def test_a_test_brings_its_flows(self):
        eight = registry.load_test({"name": "t", "tool": "iperf3", "streams": 8, "seconds": 10})
        assert limit_for(arm("a"), eight).name == "instance peak"
        ping = registry.load_test({"name": "t", "tool": "ping"})
        assert limit_for(arm("a"), ping) is None

    def test_a_test_brings_its_directions_each_with_its_own_streams_and_limit(self):
        both = {"name": "t", "tool": "iperf3", "streams": 1, "bidirectional": True, "seconds": 10}
        limit = limit_for(arm("a", network=STEADY), registry.load_test(both))
        assert limit == Limit("single-flow", 2 * 5e9)
        eight = registry.load_test({**both, "streams": 8})
        group = arm("a", placement="cluster", network=STEADY)
        assert limit_for(group, eight).bits_per_second == 2 * 50e9

    def test_a_test_brings_the_rate_it_limits_itself_to(self):
        udp = {"name": "t", "tool": "iperf3", "protocol": "udp", "bits_per_second": 10**9}
        limit = limit_for(arm("a", network=STEADY), registry.load_test(udp))
        assert limit == Limit("offered rate", 1e9, PLAN)

    def test_the_first_network_card_counts(self):
        cards = [
            {"NetworkCardIndex": 1, "BaselineBandwidthInGbps": 1.0, "PeakBandwidthInGbps": 2.0},
            {"NetworkCardIndex": 0, "BaselineBandwidthInGbps": 0.75, "PeakBandwidthInGbps": 10.0},
        ]
        assert instance_network({"NetworkInfo": {"NetworkCards": cards}}) == C5_LARGE
        assert instance_network({}) == UNKNOWN

    @pytest.mark.parametrize(
        ("advertised", "together", "gigabits"),
        [("Up to 170 Gigabit", 200.0, 170), ("400 Gigabit", 350.0, 350), ("", 100.0, 100)],
    )
    def test_one_of_several_cards_has_no_more_than_its_text_tells(
        self, advertised, together, gigabits
    ):
        card = {"BaselineBandwidthInGbps": together, "PeakBandwidthInGbps": together}
        cards = [
            {"NetworkCardIndex": n, "NetworkPerformance": advertised, **card} for n in range(2)
        ]
        limits = instance_network({"NetworkInfo": {"NetworkCards": cards}})
        assert limits.peak_bits_per_second == limits.baseline_bits_per_second == gigabits * 1e9
        # Where there is one card, its text is a rounded figure.
        alone = instance_network({"NetworkInfo": {"NetworkCards": cards[:1]}})
        assert alone.peak_bits_per_second == together * 1e9

    @pytest.mark.parametrize(
        ("bandwidth", "bursts"), [(C5_LARGE, True), (STEADY, False), (UNKNOWN, False)]
    )
    def test_only_a_known_baseline_below_the_peak_is_a_burst(self, bandwidth, bursts):
        assert bandwidth.bursts is bursts


class TestTheCeilingOfAVerdict:
    def test_it_names_its_source_and_how_close_each_arm_came(self):
        limit = ceiling(of(1, "cluster"), of(1, "none"), arm_level=9.5e9, baseline_level=4.94e9)
        assert (limit.name, limit.source) == ("single-flow", GUIDE)
        assert (limit.arm, limit.baseline) == (10e9, 5e9)
        assert limit.arm_share == pytest.approx(0.95)
        assert limit.baseline_share == pytest.approx(0.988)
        assert limit.explains is True

    def test_it_stands_without_measurements_but_explains_nothing(self):
        limit = ceiling(of(1, "cluster"), of(1, "none"), arm_level=9e9)
        assert limit.arm_share == 0.9
        assert limit.baseline_share is None
        assert limit.explains is False

    def test_of_an_open_verdict_it_tells_the_shares_and_explains_nothing(self):
        levels = {"arm_level": 9.5e9, "baseline_level": 4.94e9}
        limit = ceiling(of(1, "cluster"), of(1, "none"), **levels, decided=False)
        assert limit.explains is False
        assert "95 %" in limit.text and "explain" not in limit.text

    def test_one_arm_in_two_runs_is_told_as_now_and_before(self):
        one = of(1, "none")
        levels = {"arm_level": 3e9, "baseline_level": 4.9e9}
        result = ceiling(one, one, **levels, names=("treatment", "treatment"))
        assert result.text.startswith("treatment now came to 60 %")
        assert "treatment before came to 98 %" in result.text

    def test_ena_express_has_its_own_source_and_keeps_the_others_limit(self):
        limit = ceiling(of(1, "cluster", STEADY, ena_express=True), of(1, "none", STEADY))
        assert limit.name == ENA_EXPRESS_FLOW
        assert (limit.arm, limit.baseline) == (25e9, 5e9)
        assert limit.source == ENA_EXPRESS_GUIDE


TEN = Limit("single-flow", 10e9)
FIVE = Limit("single-flow", 5e9)
PEAK = Limit("instance peak", 10e9, GUIDE, 0.75e9)
OFFERED = Limit("offered rate", 1e9, PLAN)


def explained(arm, baseline, arm_level, baseline_level, **more):
    return explain(
        arm, baseline, arm_level, baseline_level, names=("treatment", "baseline"), **more
    )


class TestWhatTheLimitsExplain:
    def test_the_published_result_of_a_placement_group(self):
        explanation = explained(TEN, FIVE, 9.5e9, 4.94e9)
        assert explanation.explains
        assert explanation.text == (
            "treatment came to 95 % of its single-flow limit of 10.0 Gbit/s and baseline"
            " came to 98.8 % of its single-flow limit of 5.00 Gbit/s: the limits explain the"
            " difference"
        )

    def test_two_arms_at_the_same_instance_limit_could_not_differ(self):
        explanation = explained(PEAK, PEAK, 9.5e9, 9.4e9)
        assert explanation.explains
        assert explanation.text == (
            "both were at the same instance peak limit of 10.0 Gbit/s, so no difference could show"
        )

    @pytest.mark.parametrize(
        ("limits", "levels", "explains", "words"),
        [
            ((OFFERED, OFFERED), (1e9, 0.999e9), True, "same offered rate limit of 1.00 Gbit/s"),
            ((TEN, FIVE), (3e9, 2e9), False, "something else made the difference"),
            ((TEN, FIVE), (9.5e9, 3e9), False, "something else held baseline back"),
            (
                (TEN, FIVE),
                (7e9, 4.9e9),
                True,
                "explains why baseline stayed behind, and something else kept treatment",
            ),
            ((FIVE, FIVE), (5.1e9, 4.6e9), False, "the limits are alike"),
            (
                (TEN, FIVE),
                (4.9e9, 4.95e9),
                False,
                "something else held treatment at what limits baseline",
            ),
            ((TEN, FIVE), (3e9, 3e9), False, "do not explain why they are alike"),
            ((TEN, FIVE), (9.5e9, 7e9), False, "was not held by that limit"),
            (
                (PEAK, PEAK),
                (0.74e9, 0.745e9),
                True,
                "same sustained instance baseline limit of 750 Mbit/s",
            ),
            ((PEAK, PEAK), (0.74e9, 9.5e9), True, "sustained instance baseline"),
        ],
        ids=[
            "both at the rate they offer",
            "both far below their limits",
            "a baseline short of its limit",
            "a baseline at its limit, a treatment short of its own",
            "a difference between arms of one limit",
            "a treatment where the baseline's limit is",
            "alike and below their limits",
            "an arm above its limit",
            "both bursts over",
            "one burst over",
        ],
    )
    def test_what_limits_explain_and_what_they_do_not(self, limits, levels, explains, words):
        explanation = explained(*limits, *levels)
        assert explanation.explains is explains
        assert words in explanation.text

    def test_nothing_measured_explains_nothing(self):
        assert not explained(TEN, FIVE, None, 4.9e9).explains
        assert not explained(TEN, FIVE, 9.5e9, 0.0).explains

    def test_the_plans_threshold_says_what_is_alike(self):
        assert not explained(OFFERED, OFFERED, 1e9, 0.94e9).explains
        assert explained(OFFERED, OFFERED, 1e9, 0.94e9, alike=0.1).explains

    @given(
        st.floats(1e6, 1e11),
        st.floats(1e6, 1e11),
        st.floats(0.01, 1.5),
        st.floats(0.01, 1.5),
    )
    def test_who_is_called_arm_does_not_matter_and_a_slow_arm_is_never_explained_away(
        self, one, other, one_share, other_share
    ):
        first, second = Limit("single-flow", one), Limit("instance peak", other)
        there = explained(first, second, one * one_share, other * other_share)
        back = explained(second, first, other * other_share, one * one_share)
        assert there.explains == back.explains
        slower_share = one_share if one * one_share < other * other_share else other_share
        if slower_share < 1 - NEAR - 1e-6:
            assert not there.explains


def described(name, baseline, peak, volumes=None):
    """An entry of DescribeInstanceTypes; bandwidths in Gb/s."""
    card = {"NetworkCardIndex": 0, "BaselineBandwidthInGbps": baseline, "PeakBandwidthInGbps": peak}
    ebs = (
        {} if volumes is None else {"EbsOptimizedInfo": {"BaselineBandwidthInMbps": volumes * 1e3}}
    )
    return {"InstanceType": name, "NetworkInfo": {"NetworkCards": [card]}, "EbsInfo": ebs}


class TestBandwidthWeighting:
    @pytest.mark.parametrize(
        ("entry", "weighting", "baseline", "peak"),
        [
            # The documented example: 40 Gb/s become 50.
            (described("m8g.24xlarge", 40, 40, 30), "vpc-1", 50e9, 50e9),
            # 30 Gb/s of the volumes become 37.5.
            (described("m8g.24xlarge", 40, 40, 30), "ebs-1", 32.5e9, 32.5e9),
            (described("m8g.24xlarge", 40, 40, 30), "default", 40e9, 40e9),
            # A burst stays for what is favored, and shrinks for the other.
            (described("m8g.xlarge", 2, 12.5, 1), "vpc-1", 2.5e9, 12.5e9),
            (described("m8g.xlarge", 2, 12.5, 1), "ebs-1", 1.75e9, 12.25e9),
            # Flex instances: unchanged up to 4xlarge, with the baseline above.
            (described("m8i-flex.large", 0.4, 12.5, 0.3), "ebs-1", 0.325e9, 12.5e9),
            (described("m8i-flex.8xlarge", 8, 15, 4), "vpc-1", 10e9, 17e9),
            (described("m8g.large", 0.4, 12.5), "ebs-1", None, None),
        ],
    )
    def test_it_moves_bandwidth_between_network_and_volumes(self, entry, weighting, baseline, peak):
        limits = instance_network(entry, weighting)
        assert limits.bandwidth_weighting == weighting
        assert limits.baseline_bits_per_second == (baseline and pytest.approx(baseline))
        assert limits.peak_bits_per_second == (peak and pytest.approx(peak))

    @given(
        st.floats(0.1, 100),
        st.floats(1, 30),
        st.floats(0.05, 1),
        st.sampled_from(["vpc-1", "ebs-1"]),
    )
    def test_the_peak_is_never_below_the_baseline(self, baseline, more, share, weighting):
        entry = described("m8g.large", baseline, baseline * more, baseline * share)
        limits = instance_network(entry, weighting)
        assert 0 < limits.baseline_bits_per_second <= limits.peak_bits_per_second

    def test_an_instance_tells_its_own(self):
        assert bandwidth_weighting(
            {"NetworkPerformanceOptions": {"BandwidthWeighting": "vpc-1"}}
        ) == ("vpc-1")
        assert bandwidth_weighting({}) == "default"
