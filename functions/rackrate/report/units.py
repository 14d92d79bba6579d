"""Values with SI prefixes. Pure."""

from __future__ import annotations

import math

_PREFIXES = {12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n"}


def _power(value: float) -> int:
    """The exponent of the prefix that suits a value other than zero."""
    return max(-9, min(12, 3 * math.floor(math.log10(abs(value)) / 3)))


def si(value: float, unit: str) -> str:
    """A value with an SI prefix and three significant digits, such as `9.50 Gbit/s` or `155 µs`."""
    if value == 0:
        return f"0 {unit}"
    # Rounding first: 999.96 is 1.00 k, not 1000.
    rounded = float(f"{value:.3g}")
    power = _power(rounded)
    scaled = rounded / 10**power
    digits = max(0, 2 - math.floor(math.log10(abs(scaled))))
    return f"{scaled:.{digits}f} {_PREFIXES[power]}{unit}"


def prefixed(most: float, unit: str) -> tuple[float, str]:
    """What to divide an axis' values by, and the unit they are then in.

    Args:
        most: the axis' largest value.
        unit: an SI unit.
    """
    power = _power(most) if most > 0 else 0
    return 10.0**power, f"{_PREFIXES[power]}{unit}"
