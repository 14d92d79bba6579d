"""Figures as inline SVG. Pure: values in, markup out; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 640
#: How many colours the style sheet has for arms.
COLOURS = 6
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 12, 30


def si(value: float, unit: str) -> str:
    """A value with an SI prefix and three significant digits, such as `9.50 Gbit/s` or `155 µs`."""
    if value == 0:
        return f"0 {unit}"
    prefixes = {12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n"}
    # Rounding first: 999.96 is 1.00 k, not 1000.
    rounded = float(f"{value:.3g}")
    power = max(-9, min(12, 3 * math.floor(math.log10(abs(rounded)) / 3)))
    scaled = rounded / 10**power
    digits = max(0, 2 - math.floor(math.log10(abs(scaled))))
    return f"{scaled:.{digits}f} {prefixes[power]}{unit}"


@dataclass(frozen=True)
class Dot:
    """A trial in a figure.

    Attributes:
        block: its block, from 1.
        value: in the figure's unit.
        marks: what was noted of it, in words; empty for most.
    """

    block: int
    value: float
    marks: tuple[str, ...] = ()


def trials_figure(
    values: Mapping[str, Sequence[Dot]],
    *,
    unit: str,
    ceilings: Mapping[str, float],
    title: str,
) -> str:
    """Every trial over its block, for each arm, from zero; ceilings as dashed lines.

    A trial is a dot, a marked one a hollow diamond.

    Args:
        values: the trials of each arm.
        unit: the values' SI unit.
        ceilings: the documented limit of each arm, where there is one.
        title: what a screen reader says.
    """
    dots = [dot for arm in values.values() for dot in arm]
    if not dots:
        return "<p>No trial was measured.</p>"
    height = 220
    most = max(max(dot.value for dot in dots), *ceilings.values(), 0) * 1.08 or 1.0
    last = max(dot.block for dot in dots)
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def x(block: float) -> float:
        return _LEFT + inner_width * (block - 0.5) / last

    def y(value: float) -> float:
        return _TOP + inner_height * (1 - value / most)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
    ]
    for step in _steps(most):
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(step):.1f}"'
            f' y2="{y(step):.1f}"/><text class="tick" x="{_LEFT - 6}" y="{y(step) + 4:.1f}"'
            f' text-anchor="end">{escape(si(step, unit))}</text>'
        )
    every = max(1, math.ceil(last / 12))
    for block in range(1, last + 1, every):
        parts.append(
            f'<text class="tick" x="{x(block):.1f}" y="{height - 12}" text-anchor="middle">'
            f"{block}</text>"
        )
    offsets = {name: (i - (len(values) - 1) / 2) * 0.24 for i, name in enumerate(values)}
    for index, (arm, trials) in enumerate(values.items()):
        if arm in ceilings:
            parts.append(
                f'<line class="ceiling {colour(index)}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}"'
                f' y1="{y(ceilings[arm]):.1f}" y2="{y(ceilings[arm]):.1f}"><title>'
                f"{escape(arm)}: documented limit {escape(si(ceilings[arm], unit))}</title></line>"
            )
        for dot in trials:
            said = f"{arm}, block {dot.block}: {si(dot.value, unit)}"
            said = "; ".join([said, *dot.marks])
            parts.append(
                _symbol(
                    x(dot.block + offsets[arm]),
                    y(dot.value),
                    f"{colour(index)}{' marked' if dot.marks else ''}",
                    said,
                )
            )
    parts.append("</svg>")
    return "".join(parts)


def colour(index: int) -> str:
    """The class that gives an arm its colour."""
    return f"arm-{index % COLOURS}"


def _symbol(x: float, y: float, classes: str, title: str) -> str:
    """A dot, or a diamond for what is marked: told apart without colours too."""
    said = f"<title>{escape(title)}</title>"
    if "marked" not in classes.split():
        return f'<circle class="{classes}" cx="{x:.1f}" cy="{y:.1f}" r="4">{said}</circle>'
    corners = f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
    return f'<path class="{classes}" d="{corners}">{said}</path>'


def interval_figure(
    ratio: float,
    interval: Sequence[float],
    wider: Sequence[float] | None,
    *,
    threshold: float,
    title: str,
) -> str:
    """The ratio and its intervals on a logarithmic axis; the band holds what does not matter.

    Args:
        ratio: the effect, 1 for none.
        interval: the interval of this ratio alone, drawn thick.
        wider: the interval that holds with those of all other verdicts at once, drawn thin.
        threshold: a ratio within 1 / (1 + threshold) and 1 + threshold does not matter.
        title: what a screen reader says.

    Returns:
        The figure, or nothing when a value has no logarithm.
    """
    values = (ratio, *interval, *(wider or ()))
    if not all(math.isfinite(value) and value > 0 for value in values):
        return ""
    height = 62
    reach = max(abs(math.log(v)) for v in (*values, 1 + threshold, 1.25)) * 1.15
    middle = _TOP + 14

    def x(value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (math.log(value) + reach) / (2 * reach)

    def line(ends: Sequence[float], classes: str) -> str:
        return (
            f'<line class="{classes}" x1="{x(ends[0]):.1f}" x2="{x(ends[1]):.1f}" y1="{middle}"'
            f' y2="{middle}"/>'
        )

    least, most = 1 / (1 + threshold), 1 + threshold
    ticks = "".join(
        f'<text class="tick" x="{x(tick):.1f}" y="{height - 4}" text-anchor="middle">'
        f"{tick:.3g}</text>"
        for tick in (math.exp(-reach / 1.15), 1.0, math.exp(reach / 1.15))
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f'<rect class="band" x="{x(least):.1f}" width="{x(most) - x(least):.1f}" y="{_TOP - 6}"'
        f' height="40"/>'
        f'<line class="grid" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP - 6}" y2="{_TOP + 34}"/>'
        f"{line(wider, 'wider') if wider else ''}{line(interval, 'interval')}"
        f'<circle class="ratio" cx="{x(ratio):.1f}" cy="{middle}" r="5"/>{ticks}</svg>'
    )


def _steps(most: float) -> list[float]:
    """Three to six round numbers from zero up."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(s * power for s in (0.2, 0.25, 0.5, 1.0, 2.0) if most / (s * power) <= 5.5)
    return [step * i for i in range(math.floor(most / step) + 1)]
