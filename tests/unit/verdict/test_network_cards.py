"""What nodes' network cards tell of a run."""

from __future__ import annotations

import pytest

from rackrate.measure.counters import Counters
from rackrate.verdict.network_cards import (
    FEW_CONNECTIONS,
    few_connections_notes,
    network_card_warnings,
    unused_express_notes,
)
from rackrate_contract.arms import Interface
from tests.unit import builders

CARD = Interface(
    driver="ena",
    driver_version="2.16.1g",
    firmware=None,
    bus="0000:00:05.0",
    mtu=9001,
    queues=2,
    most_queues=2,
    unknown=None,
)


def arms(treatment=CARD, baseline=CARD, *, counters=None, **settings):
    """Two arms of two nodes, each with one card; the treatment has the settings."""
    both = [
        builders.arm("treatment", ["t-1", "t-2"], **settings),
        builders.arm("baseline", ["b-1", "b-2"]),
    ]
    cards = {"t-1": treatment, "t-2": treatment, "b-1": baseline, "b-2": baseline}
    read = Counters(
        before={} if counters is None else counters.before,
        after={} if counters is None else counters.after,
        interfaces={name: {"ens5": card} for name, card in cards.items()},
        note=None,
    )
    return read.describe(both), read


def warnings(*cards, **settings):
    return network_card_warnings(*arms(*cards, **settings))


def with_facts(**facts):
    return CARD.model_copy(update=facts)


def test_alike_cards_are_no_warning():
    assert warnings() == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {"driver_version": "2.15.0g"},
            "network driver (treatment: ena 2.15.0g; baseline: ena 2.16.1g)",
        ),
        ({"mtu": 1500}, "MTU (treatment: 1500; baseline: 9001)"),
        ({"queues": 1}, "network queues (treatment: 1 of 2; baseline: 2 of 2)"),
    ],
)
def test_cards_that_differ_between_arms_are_a_confound(facts, words):
    (warning,) = warnings(with_facts(**facts))
    assert warning.startswith(f"nodes differ in their {words}, which may make a difference")


def test_an_unknown_fact_is_no_difference_and_is_not_hidden():
    unread = with_facts(driver=None, driver_version=None, unknown="driver: no answer")
    assert warnings(unread) == []
    (warning,) = warnings(unread, with_facts(mtu=1500))
    assert "MTU" in warning


def test_nodes_that_were_not_read_are_no_warning():
    both = [builders.arm("treatment", ["a"]), builders.arm("baseline", ["b"])]
    assert network_card_warnings(both, None) == []


@pytest.mark.parametrize("version", ["2.17.0", "2.17.0g", "2.17.0K"])
def test_a_driver_that_is_known_to_be_broken_is_told_with_its_source(version):
    card = with_facts(driver_version=version)
    (warning,) = warnings(card, card)
    assert warning.startswith("4 nodes (b-1, b-2, t-1 and 1 more) had version 2.17.0")
    assert "2.17.2" in warning
    assert "https://github.com/amzn/amzn-drivers/issues/380" in warning


@pytest.mark.parametrize("version", ["2.16.1g", "2.17.2g", "2.17.01", "12.17.0", None])
def test_other_drivers_are_not_taken_for_the_broken_one(version):
    card = with_facts(driver_version=version)
    assert warnings(card, card) == []


def counted(sent, eligible, mode=1, utilization=0):
    """Counters of the treatment's nodes, each of which sent so many packets."""

    def reading(sent, eligible):
        return {
            "ens5": {
                "ena_srd_mode": mode,
                "ena_srd_tx_pkts": sent,
                "ena_srd_eligible_tx_pkts": eligible,
                "ena_srd_resource_utilization": utilization,
            }
        }

    nodes = ("t-1", "t-2")
    return Counters(
        before={node: reading(7, 7) for node in nodes},
        after={node: reading(7 + sent, 7 + eligible) for node in nodes},
        note=None,
    )


@pytest.mark.parametrize(
    ("counters", "card", "why"),
    [
        (counted(0, 0, mode=0), CARD, "it is off on t-1 and t-2 (ena_srd_mode)"),
        (counted(0, 0), CARD, "no packet was eligible"),
        (counted(0, 900), CARD, "the MTU is 9001, and ENA Express needs 8900 or less"),
        (counted(0, 900, utilization=99), with_facts(mtu=8900), "which came to 99 %"),
    ],
)
def test_ena_express_that_is_on_and_not_used_is_told_with_what_is_known(counters, card, why):
    (warning,) = warnings(card, card, counters=counters, ena_express=True)
    assert warning.startswith("ENA Express was switched on in treatment but not used")
    assert why in warning


def test_ena_express_that_carries_a_part_is_told_with_the_share():
    (warning,) = warnings(counters=counted(450, 900), ena_express=True)
    assert warning.startswith("treatment sent 50 % of the packets by ENA Express")
    assert warnings(counters=counted(899, 900), ena_express=True) == []


def test_whether_ena_express_was_used_is_not_claimed_where_it_was_not_read():
    assert warnings(ena_express=True) == []


def test_each_node_that_left_its_ena_express_unused_is_noted():
    both, counters = arms(counters=counted(0, 9), ena_express=True)
    assert unused_express_notes(both, counters).keys() == {"t-1", "t-2"}
    both, counters = arms(counters=counted(5, 9), ena_express=True)
    assert unused_express_notes(both, counters) == {}
    assert unused_express_notes(arms(counters=counted(0, 9))[0], counted(0, 9)) == {}


@pytest.mark.parametrize(
    ("before", "after", "noted"),
    [
        (FEW_CONNECTIONS, FEW_CONNECTIONS, False),
        (FEW_CONNECTIONS, FEW_CONNECTIONS - 1, True),
        (0, 90_000, True),
    ],
)
def test_a_node_with_few_connections_left_is_noted_at_either_reading(before, after, noted):
    def reading(left):
        return {"a": {"ens5": {"conntrack_allowance_available": left}}, "b": {"ens5": {}}}

    notes = few_connections_notes(Counters(before=reading(before), after=reading(after), note=None))
    assert list(notes) == (["a"] if noted else [])
