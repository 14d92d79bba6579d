"""Units and figures: three significant digits, and one form for each kind. Pure.

No function here raises for a value, and no figure has an exponent. An unknown value is a dash. A
value that is too large or too small to be meaningful is a bound, such as `>1000`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

UNKNOWN = "\u2013"
MINUS = "\u2212"
#: Separates groups of digits. A line does not break at it.
NARROW_SPACE = "\u202f"

_PREFIXES = {12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n"}
#: A ratio or percentage beyond these is the end of an interval too wide to exclude anything useful.
_LEAST, _MOST = 0.001, 1000.0
_MOST_QUANTITY = 1e15
_MOST_DOLLARS = 1e9
_MOST_HOURS = 10_000


@dataclass(frozen=True)
class Unit:
    """The unit of a quantity.

    Attributes:
        name: its name in results and on pages, such as `bit/s`.
        column: the ending of column names for such a quantity, such as `bits_per_second`.
        prefixes: the exponents of the smallest and the largest SI prefix that the name may take:
            `9.50 Gbit/s`, but `19 800 transactions/s`.
    """

    name: str
    column: str
    prefixes: tuple[int, int] = (0, 0)


UNITS = {
    unit.name: unit
    for unit in (
        Unit("bit/s", "bits_per_second", prefixes=(0, 12)),
        Unit("s", "seconds", prefixes=(-9, 0)),
        Unit("B", "bytes", prefixes=(0, 12)),
    )
}
_EVENTS = re.compile(r"([a-z]+)/s")


def unit_of(name: str) -> Unit:
    """The unit with a name: one of `UNITS`, or a count per second such as `transactions/s`.

    Raises:
        ValueError: the name is neither; the message says where to add it.
    """
    if name in UNITS:
        return UNITS[name]
    if events := _EVENTS.fullmatch(name):
        return Unit(name, f"{events[1]}_per_second")
    raise ValueError(
        f"there is no unit {name!r}: add it to UNITS in functions/rackrate_text/units.py, or name"
        " things per second, such as 'transactions/s'"
    )


def metric_column(metric: str, unit: str) -> str:
    """The column of a metric in a table, such as `throughput_bits_per_second`."""
    return f"{metric}_{unit_of(unit).column}"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit, such as `9.50 Gbit/s`, `155 µs` or `19 800 transactions/s`.

    It has three significant digits. Where the unit takes no SI prefix, digits are in groups of
    three.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    power = _power(value, unit)
    scale = 10.0**power
    figure = _bounded(value / scale, _digits, most=_MOST_QUANTITY / scale)
    return f"{figure} {_PREFIXES[power]}{unit}"


def read_quantity(text: str, unit: str) -> float | None:
    """The value of a text such as `9.5 Gbit/s` or `90us` in a unit; None if it is none above 0."""
    match = re.fullmatch(rf"\s*(\d+(?:\.\d+)?)\s*(.?){re.escape(unit)}\s*", text, re.ASCII)
    powers = {prefix: power for power, prefix in _PREFIXES.items()}
    prefix = match[2].replace("u", "µ").replace("\u03bc", "µ") if match else None
    if match is None or prefix not in powers or (prefix and unit not in UNITS):
        return None
    return float(match[1]) * 10.0 ** powers[prefix] or None


def ratio(value: float | None) -> str:
    """A ratio, such as `0.850`, `1.98` or `113`: three digits, at most three decimals."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return _bounded(value, lambda inside: _digits(inside, most_decimals=3))


def change(value: float | None) -> str:
    """A ratio as a signed change, such as `+101 %`, `+0.6 %` or, with a true minus, `-85.2 %`."""
    return UNKNOWN if value is None or not value >= 0 else f"{_change(value)} %"


def changes(ends: Sequence[float] | None) -> str:
    """An interval of a ratio as signed changes, such as `+97.0 to +101 %`."""
    return UNKNOWN if ends is None else f"{_change(ends[0])} to {_change(ends[1])} %"


def _change(ratio: float) -> str:
    """A ratio's change in percent, without its unit: at most one decimal, none from 100 on."""
    if ratio > _MOST:
        return f">+{_grouped(100 * (_MOST - 1))}"
    if 0 < ratio < _LEAST:
        return f"<{MINUS}{100 * (1 - _LEAST):g}"
    size = 100 * abs(ratio - 1)
    figure = f"{round(size, 1):g}" if round(size, 1) < 100 else _grouped(size)
    if figure == "0":
        return figure
    return f"{'+' if ratio > 1 else MINUS}{figure}"


def _grouped(value: float) -> str:
    return f"{value:{',' if round(value) >= 10_000 else ''}.0f}".replace(",", NARROW_SPACE)


def change_with_interval(value: float | None, ends: Sequence[float] | None) -> str:
    """A ratio as a change with its interval, such as `+101 % (95 % CI +97 to +103 %)`.

    Empty without a ratio.
    """
    if value is None or math.isnan(value):
        return ""
    return change(value) + (f" (95 % CI {changes(ends)})" if ends is not None else "")


def shift(before: float | None, after: float | None, unit: str) -> str:
    """Two values of a quantity, such as `573 → 84.5 µs`; `1.20 ms → 84.5 µs` if prefixes differ."""
    old, new = quantity(before, unit), quantity(after, unit)
    figure, _, prefixed_unit = old.rpartition(" ")
    if figure and new.endswith(f" {prefixed_unit}"):
        old = figure
    return f"{old} \u2192 {new}"


def percent(share: float | None) -> str:
    """A share, such as `99.2 %` or `5 %`: at most three digits."""
    if share is None or math.isnan(share):
        return UNKNOWN
    return f"{_bounded(100 * share, lambda inside: f'{_rounded(inside):g}')} %"


def dollars(usd: float | None) -> str:
    """An amount in US dollars, such as `$1.25`; a positive one below half a cent is not `$0.00`."""
    if usd is None or not math.isfinite(usd):
        return UNKNOWN
    size, sign = abs(usd), "-" if usd < 0 else ""
    if 0 < size < 0.005:
        return f"{_below(usd)}{sign}$0.01"
    bound = _above(usd) if size > _MOST_DOLLARS else ""
    return f"{bound}{sign}${min(size, _MOST_DOLLARS):,.2f}"


def duration(seconds: float | None) -> str:
    """A duration: `8 s`, `2 min 05 s`, `1 h 03 min`.

    A negative one, which two clocks that differ can give, is `0 s`.
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {left:02d} s"
    if minutes > 60 * _MOST_HOURS:
        return f">{_MOST_HOURS} h"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def took(seconds: float | None, waited: float | None = None) -> str:
    """How long a run took, and what it waited first: `took 42 s, after 3 min 01 s of waiting`.

    Empty if it is not known, and for what measures nothing.
    """
    if not seconds:
        return ""
    waiting = f", after {duration(waited)} of waiting" if waited and waited >= 1 else ""
    return f"took {duration(seconds)}{waiting}"


def moment(time: str) -> str:
    """An ISO 8601 time in UTC without its fraction, such as `2026-11-22T06:00:03Z`."""
    return f"{time[:19]}Z"


def prefixed(most: float, unit: str) -> tuple[float, str]:
    """The divisor for the values of an axis, and the unit of the quotients.

    Args:
        most: the axis' largest value.
        unit: the unit of the values.
    """
    if unit not in UNITS:
        return (1e6, f"million {unit}") if most >= 1e6 else (1.0, unit)
    power = _power(most, unit) if most > 0 else 0
    return 10.0**power, f"{_PREFIXES[power]}{unit}"


def _power(value: float, unit: str) -> int:
    """The exponent of the prefix that suits a value."""
    least, greatest = UNITS[unit].prefixes if unit in UNITS else (0, 0)
    # Round before choosing the prefix: 999.96 is 1.00 k, not 1000. The cap is there because the
    # largest floats round to infinity.
    rounded = _rounded(min(abs(value), _MOST_QUANTITY))
    suits = 3 * math.floor(math.log10(rounded) / 3) if rounded else 0
    return max(least, min(greatest, suits))


def _bounded(value: float, write: Callable[[float], str], most: float = _MOST) -> str:
    """A value's figure, or the figure of the bound that it exceeds."""
    if value == 0:
        return "0"
    size, sign = abs(value), "-" if value < 0 else ""
    if size < _LEAST:
        return f"{_below(value)}{sign}{_LEAST}"
    bound = _above(value) if size > most else ""
    return f"{bound}{sign}{write(min(size, most))}"


def _below(value: float) -> str:
    """The sign of a value that is nearer to zero than its bound."""
    return ">" if value < 0 else "<"


def _above(value: float) -> str:
    """The sign of a value that is farther from zero than its bound."""
    return "<" if value < 0 else ">"


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _digits(value: float, most_decimals: int = 5) -> str:
    """Three significant digits of a positive number, without an exponent."""
    rounded = _rounded(value)
    decimals = max(0, min(most_decimals, 2 - math.floor(math.log10(rounded))))
    grouping = "," if rounded >= 10_000 else ""
    return f"{rounded:{grouping}.{decimals}f}".replace(",", NARROW_SPACE)
