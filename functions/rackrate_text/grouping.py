"""Grouping by what things have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable


def grouped_by[K: Hashable, T](items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items of each key, keys and items in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
