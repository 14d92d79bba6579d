"""Counts and lists as text for sentences."""

from __future__ import annotations

from rackrate_text.words import counted, listed


def test_only_one_is_singular():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


def test_a_list_says_how_many_it_leaves_out():
    names = ["a", "b", "c", "d"]
    assert [listed(names[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert listed(names, "or") == "a, b, c or d"
    assert listed(names, most=2) == "a, b and 2 more"
    assert listed(names, most=4) == "a, b, c and d"
