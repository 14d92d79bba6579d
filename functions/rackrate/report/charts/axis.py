"""The range of values that an axis shows, and its ticks and unit. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate_text.units import prefixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: An axis is logarithmic if the ratio of its largest to its smallest value exceeds this.
_LOGARITHMIC = 30.0
#: An axis leaves out zero if all values are above this share of the largest.
_ZOOMED = 0.55
#: The most ticks of an axis that counts.
_MOST_TICKS = 10


@dataclass(frozen=True)
class ValueAxis:
    """The range of values of an axis.

    Attributes:
        low, high: its ends, in the SI unit.
        logarithmic: whether the axis is logarithmic.
        factor, unit: the axis' unit, and the divisor that converts values to it.
    """

    low: float
    high: float
    logarithmic: bool
    factor: float
    unit: str

    @property
    def from_zero(self) -> bool:
        """Whether the axis is linear and starts at zero, so that distances show the values."""
        return self.low == 0

    def note(self) -> str:
        """A note on the axis for the reader, or an empty text."""
        if self.logarithmic:
            return "The axis is logarithmic."
        return "" if self.from_zero else "The axis does not begin at zero."

    def set_on(self, ax: Axes, which: str = "y", *, most_ticks: int = 5) -> None:
        """Set an axis of a chart to this range, with round ticks."""
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

        if which == "y":
            ax.set_yscale("log" if self.logarithmic else "linear")
            ax.set_ylim(self.low, self.high)
        else:
            ax.set_xscale("log" if self.logarithmic else "linear")
            ax.set_xlim(self.low, self.high)
        axis: Axis = ax.yaxis if which == "y" else ax.xaxis
        decades = math.log10(self.high / self.low) if self.logarithmic else 0
        axis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,), numticks=most_ticks + 2)
            if self.logarithmic
            else MaxNLocator(most_ticks, steps=[1, 2, 2.5, 5, 10])
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / self.factor:.6g}"))


def value_axis(
    values: Iterable[float],
    unit: str,
    *,
    anchors: Sequence[float] = (),
    logarithmic_from: float = _LOGARITHMIC,
    from_zero_below: float = _ZOOMED,
) -> ValueAxis:
    """An axis for values of a quantity that is never negative.

    It starts at zero, unless the values are too close together to be told apart then.

    Args:
        values: the values to show.
        unit: their SI unit.
        anchors: further values that the axis has to include.
        logarithmic_from: ratio of the largest to the smallest value from which the axis is
            logarithmic.
        from_zero_below: the axis starts at zero if the smallest value is below this share of the
            largest.
    """
    shown = [*values, *anchors]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    factor, named = prefixed(high, unit)
    if high <= 0:
        return ValueAxis(0.0, 1.0, False, 1.0, unit)
    if low > 0 and high / low > logarithmic_from:
        return ValueAxis(low / 1.3, high * 1.3, True, factor, named)
    if low >= from_zero_below * high:
        margin = max(0.1 * (high - low), 1e-3 * high)
        return ValueAxis(low - margin, high + margin, False, factor, named)
    return ValueAxis(0.0, high * 1.06, False, factor, named)


def whole_ticks(first: int, last: int) -> list[int]:
    """The ticks of an axis that counts from `first` to `last`: each, or multiples of 2, 5, 10."""
    steps = (step * 10**power for power in range(6) for step in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step < _MOST_TICKS)
    return [number for number in range(first, last + 1) if number % step == 0] or [first]
