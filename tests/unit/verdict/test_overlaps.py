"""Runs that used the same nodes while a run measured are named with the time they shared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rackrate.times import later
from rackrate.verdict.overlaps import OtherRun, Span, overlaps
from tests.unit.builders import trial

NOON = "2026-11-22T12:00:00Z"
SPAN = Span(NOON, later(NOON, 90))
ARMS = ("treatment", "baseline")


def other(start, end, *arms, run_id="run-2"):
    """Another run, from and to so many seconds after noon."""
    return OtherRun(run_id, Span(later(NOON, start), later(NOON, end)), frozenset(arms))


def test_a_run_on_the_same_nodes_is_named_with_the_time_and_the_arms_they_share():
    (sentence,) = overlaps(SPAN, ARMS, [other(-20, 30, "baseline", "third")])
    assert sentence.startswith(
        "The run run-2 used the nodes of baseline too, for 30 s of the 1 min 30 s in which this run"
        " measured (2026-11-22T12:00:00Z to 2026-11-22T12:00:30Z)."
    )


def test_a_run_before_after_or_on_other_nodes_is_not_named():
    others = [other(-60, 0, *ARMS), other(90, 200, *ARMS), other(0, 90, "third")]
    assert overlaps(SPAN, ARMS, others) == []


def test_a_run_of_which_nobody_recorded_the_nodes_may_have_used_all():
    (sentence,) = overlaps(SPAN, ARMS, [other(10, 20)])
    assert "may have used the nodes of treatment and baseline too, for 10 s" in sentence


def test_runs_are_named_in_the_order_of_their_time():
    others = [other(50, 60, *ARMS, run_id="later"), other(-5, 20, *ARMS, run_id="first")]
    assert [sentence.split()[2] for sentence in overlaps(SPAN, ARMS, others)] == ["first", "later"]


def test_the_span_of_trials_is_from_the_first_start_to_the_last_end():
    trials = [
        trial(started_at=later(NOON, start), finished_at=later(NOON, start + 10))
        for start in (30, 0, 70)
    ]
    span = Span.of([trial(), *trials])
    assert (span.start, span.seconds) == (later(NOON, 0), 80)
    assert Span.of([trial()]) is None


SECONDS = st.integers(-1000, 1000)


@given(ours=st.tuples(SECONDS, SECONDS), theirs=st.tuples(SECONDS, SECONDS))
def test_two_runs_name_each_other_or_neither_does(ours, theirs):
    one, two = (other(*sorted(times), *ARMS) for times in (ours, theirs))
    sentences = overlaps(one.span, ARMS, [two])
    assert bool(sentences) == bool(overlaps(two.span, ARMS, [one]))
    assert bool(sentences) == (max(min(ours), min(theirs)) < min(max(ours), max(theirs)))
