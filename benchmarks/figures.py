"""What a benchmark asks of a figure before it prints it. Pure."""

from __future__ import annotations

import math


class ImpossibleFigure(Exception):
    """A figure that nothing in the world can have: the benchmark itself is wrong."""


def positive(value: float | None, what: str) -> float:
    """The value. Raises ImpossibleFigure unless it is finite and more than zero."""
    if value is None or not (math.isfinite(value) and value > 0):
        raise ImpossibleFigure(f"{what} cannot be {value}: the benchmark measured something else.")
    return value


def share(value: float, what: str) -> float:
    """The value. Raises ImpossibleFigure unless it is from 0 to 1."""
    if not 0 <= value <= 1:
        raise ImpossibleFigure(
            f"{what} cannot be {value:.1%}: the benchmark measured something else."
        )
    return value
