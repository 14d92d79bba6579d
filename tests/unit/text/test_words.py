"""Counts and lists as text for sentences."""

from __future__ import annotations

from rackrate_text.words import counted, listed, metric_of_test, metric_words, shortened


def test_only_one_is_singular():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


def test_a_list_says_how_many_it_leaves_out():
    names = ["a", "b", "c", "d"]
    assert [listed(names[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert listed(names, "or") == "a, b, c or d"
    assert listed(names, most=2) == "a, b and 2 more"
    assert listed(names, most=4) == "a, b, c and d"


def test_a_metric_is_told_in_words_and_a_name_that_its_test_has_once():
    assert [metric_words(each) for each in ("rtt", "latency_p99", "latency_p99_9")] == [
        *("rtt", "latency p99", "latency p99.9"),
    ]
    assert metric_of_test("tcp-1", "throughput") == "tcp-1 throughput"
    assert metric_of_test("latency", "latency_p99") == "latency p99"


def test_a_text_that_is_too_long_keeps_its_beginning_and_its_end():
    text = f"the name {'x' * 10_000} is used twice; keep one"
    short = shortened(text, 60)
    assert len(short) <= 60
    assert short.startswith("the name xx") and short.endswith("xx is used twice; keep one")
    assert shortened(text, len(text)) == text
