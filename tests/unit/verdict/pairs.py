"""Values of pairs of nodes, for tests of what compares them."""

from __future__ import annotations

from rackrate.verdict.layout import Value


def one_pair(values, nodes="ab"):
    """The values of one pair in as many blocks."""
    return [Value(block, *nodes, value) for block, value in enumerate(values, start=1)]


def many_pairs(matrix, arm="x"):
    """Values of a matrix: its rows are pairs without common nodes, its columns are blocks."""
    return [
        value
        for row, values in enumerate(matrix)
        for value in one_pair(values, (f"{arm}{row}-client", f"{arm}{row}-server"))
    ]
