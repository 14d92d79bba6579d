"""Figures as a person reads them: SI prefixes, three significant digits."""

from __future__ import annotations

from math import floor, isfinite, log10

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, "s"), (1e-5, "ms"), (0.0, "µs"))
_SECONDS_IN = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def quantity(value: float | None, unit: str) -> str:
    """`987 Mbit/s`, `0.412 ms`; None, infinities and NaN are `not measured`.

    Seconds are given in ms down to 10 µs, as ping does.
    """
    if value is None or not isfinite(value):
        return "not measured"
    if unit == "s":
        name = next(name for floor, name in _SMALL if abs(value) >= floor)
        return f"{significant(value / _SECONDS_IN[name])} {name}"
    # 999.7 would be written 1000: judge the prefix by the rounded figure.
    rounded = abs(float(f"{value:.3g}"))
    factor, prefix = next(
        ((factor, prefix) for factor, prefix in _PREFIXES if rounded >= factor), (1.0, "")
    )
    return f"{significant(value / factor)} {prefix}{unit}".strip()


def significant(value: float) -> str:
    """Three significant digits without an exponent; larger whole numbers stay whole."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:.{max(0, 2 - floor(log10(abs(rounded))))}f}"


def ratio(value: float) -> str:
    """Three significant digits, but never more than three decimals: a ratio is no finer.

    What two blocks say of a spread may be anything; beyond a thousandfold it is just that.
    """
    if value >= 999.5:
        return ">999"
    if 0 < value < 0.0005:
        return "<0.001"
    return significant(value) if value >= 1 else f"{value:.3f}"


def percent(share: float | None) -> str:
    """A share as a percentage, such as `99.2 %`."""
    return "-" if share is None else f"{significant(100 * share)} %"


def dollars(usd: float | None) -> str:
    """`$1.25`; fractions of a cent are said to be less, and what is unknown is no zero."""
    if usd is None:
        return "unknown"
    return "< $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}"


def duration(seconds: float) -> str:
    """`8 s`, `2 min 05 s`, `1 h 03 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {left:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, thing: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
