"""Counts and lists in a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, thing: str) -> str:
    """Such as `1 trial` and `2 trials`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listed(names: Iterable[object], last: str = "and", *, most: int | None = None) -> str:
    """Such as `a, b and c`; of more than `most` the first ones, and how many there are more.

    Args:
        names: what is listed.
        last: the word before the last one: `and` or `or`.
        most: how many are named; None for all.
    """
    shown = [str(name) for name in names]
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    *others, end = shown or [""]
    return f"{', '.join(others)} {last} {end}" if others else end


def capitalized(words: str) -> str:
    """A sentence's first letter as a capital, the others as they are."""
    return f"{words[:1].upper()}{words[1:]}"
