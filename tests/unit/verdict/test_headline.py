"""The headline: one short sentence on all comparisons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.verdict.headline import headline
from rackrate_contract.verdicts import Baseline
from tests.unit.builders import verdict

IN_GROUP = {"arm_title": "cluster group", "baseline_title": "no group"}
WORDS = ("better", "worse", "no meaningful difference", "inconclusive")


def flow(word="better", ratio=1.99, streams=1, **more):
    title = "one flow" if streams == 1 else f"{streams} flows"
    named = {"test": f"tcp-{streams}", "title": title}
    return verdict(**IN_GROUP | named | {"verdict": word, "ratio": ratio} | more)


def latency(word="better", ratio=0.2, metric="rtt", test="rtt", **more):
    named = {"test": test, "metric": metric, "unit": "s", "better": "lower"}
    return verdict(**IN_GROUP | named | {"verdict": word, "ratio": ratio} | more)


ALIKE = flow("no meaningful difference", 1.001, streams=8)


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (
            [flow(), ALIKE, latency()],
            "In the cluster placement group one flow is twice as fast and latency 80 % lower;"
            " 8 flows are alike.",
        ),
        (
            [latency(), latency(ratio=0.26, metric="latency_p99", test="requests")],
            "In the cluster placement group latency is 74 to 80 % lower.",
        ),
        (
            [latency(), latency("inconclusive", 0.9, metric="latency_p99", test="requests")],
            "In the cluster placement group median latency is 80 % lower; p99 latency is"
            " inconclusive.",
        ),
        (
            [latency(), latency("inconclusive", 0.9, metric="latency", test="requests")],
            "In the cluster placement group rtt is 80 % lower; requests latency is inconclusive.",
        ),
        (
            [flow("worse", 0.885), flow("worse", 0.93, streams=8)],
            "In the cluster placement group one flow is 12 % slower and 8 flows are 7 % slower.",
        ),
        ([flow(ratio=1.0642)], "In the cluster placement group one flow is 6.4 % faster."),
        ([flow(ratio=4.1)], "In the cluster placement group one flow is 310 % faster."),
        (
            [latency(baseline_title="hosts", arm_title="pods")],
            "With pods instead of hosts latency is 80 % lower.",
        ),
        (
            [latency(baseline_title="cluster group", arm_title="no group")],
            "Without a group instead of cluster group latency is 80 % lower.",
        ),
    ],
)
def test_the_headline_is_in_the_words_of_the_question(verdicts, sentence):
    assert headline("", verdicts) == sentence


def test_against_an_earlier_run_it_says_since_when_and_in_which_arm():
    earlier = {"baseline": Baseline("r1", ("r1",)), "baseline_title": ""}
    ours = latency("worse", 1.5, **earlier)
    theirs = latency("worse", 1.4, arm="baseline", arm_title="no group", **earlier)
    assert headline("since r1", [ours, theirs]) == (
        "Since r1, in the cluster placement group latency is 50 % higher; without a group latency"
        " is 40 % higher."
    )


def test_what_has_more_than_twenty_words_is_counted():
    many = [flow(test=f"test-{n}", title=f"{n} flows", ratio=1 + n / 9) for n in range(2, 9)]
    assert headline("", [*many, latency("worse", 1.2)]) == (
        "In the cluster placement group: of 8 comparisons 7 are better and 1 worse."
    )


@given(
    st.lists(
        st.builds(
            lambda make, word, ratio, arm: make(word, ratio, arm=arm, arm_title=arm),
            st.sampled_from([flow, latency]),
            st.sampled_from(WORDS),
            st.none() | st.floats(0.001, 1000),
            st.sampled_from(["treatment", "spread", "no group"]),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_a_headline_is_one_sentence_of_at_most_twenty_words_or_a_count(verdicts):
    text = headline("", verdicts)
    assert text.endswith(".") and ". " not in text and "None" not in text and "  " not in text
    assert len([each for each in text.split() if each != "%"]) <= 20 or "comparisons" in text
