"""Which stretch of values an axis shows, and how it is written beside it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate_text.units import prefixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: Values that differ more than so many times need a logarithmic axis to be told apart.
_LOGARITHMIC = 30.0
#: Values that are all above this share of the largest are shown without zero.
_ZOOMED = 0.55


@dataclass(frozen=True)
class ValueAxis:
    """A stretch of values.

    Attributes:
        low, high: its ends, in the SI unit.
        logarithmic: whether its steps are factors.
        factor, unit: what values are divided by to be in this unit.
    """

    low: float
    high: float
    logarithmic: bool
    factor: float
    unit: str

    @property
    def from_zero(self) -> bool:
        """Whether distances from the axis' end are the values themselves."""
        return self.low == 0

    def note(self) -> str:
        """What a reader has to know of the axis, or nothing."""
        if self.logarithmic:
            return "The axis is logarithmic."
        return "" if self.from_zero else "The axis does not begin at zero."

    def set_on(self, ax: Axes, which: str = "y", *, most_ticks: int = 5) -> None:
        """Gives an axis of a chart this stretch, with round ticks."""
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

    From zero, unless the values are so close to each other that little would be seen of them.

    Args:
        values: what is shown.
        unit: their SI unit.
        anchors: further values that have to be within the axis.
        logarithmic_from: the ratio of the largest to the least from which steps are factors.
        from_zero_below: it begins at zero when the least is less than this share of the largest.
    """
    found = [*values, *anchors]
    low, high = min(found, default=0.0), max(found, default=0.0)
    factor, named = prefixed(high, unit)
    if high <= 0:
        return ValueAxis(0.0, 1.0, False, 1.0, unit)
    if low > 0 and high / low > logarithmic_from:
        return ValueAxis(low / 1.3, high * 1.3, True, factor, named)
    if low >= from_zero_below * high:
        margin = max(0.1 * (high - low), 1e-3 * high)
        return ValueAxis(low - margin, high + margin, False, factor, named)
    return ValueAxis(0.0, high * 1.06, False, factor, named)
