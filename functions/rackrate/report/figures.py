"""Figures as inline SVG. Pure: values in, markup out; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 640
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 30


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


def trials_figure(
    values: Mapping[str, Sequence[tuple[int, float]]],
    *,
    unit: str,
    ceilings: Mapping[str, float],
    title: str,
) -> str:
    """Every trial as a dot over its block, for each arm, from zero; ceilings as dashed lines.

    Args:
        values: for each arm, pairs of block number and value.
        unit: the values' SI unit.
        ceilings: the documented limit of each arm, where there is one.
        title: what a screen reader says.
    """
    points = [point for arm in values.values() for point in arm]
    if not points:
        return "<p>No trial was measured.</p>"
    height = 220
    most = max(max(value for _, value in points), *ceilings.values(), 0) * 1.08
    last = max(block for block, _ in points)
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
                f'<line class="ceiling arm-{index}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}"'
                f' y1="{y(ceilings[arm]):.1f}" y2="{y(ceilings[arm]):.1f}"><title>'
                f"{escape(arm)}: documented limit {escape(si(ceilings[arm], unit))}</title></line>"
            )
        parts.extend(
            f'<circle class="arm-{index}" cx="{x(block + offsets[arm]):.1f}" cy="{y(value):.1f}"'
            f' r="4"><title>{escape(arm)}, block {block}: {escape(si(value, unit))}</title>'
            "</circle>"
            for block, value in trials
        )
    parts.append("</svg>")
    return "".join(parts)


def interval_figure(ratio: float, low: float, high: float, *, threshold: float, title: str) -> str:
    """The ratio and its interval on a logarithmic axis; the band holds what does not matter."""
    height = 62
    reach = max(abs(math.log(v)) for v in (low, high, ratio, 1 + threshold, 1.25)) * 1.15
    middle = _TOP + 14

    def x(value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (math.log(value) + reach) / (2 * reach)

    least, most = 1 / (1 + threshold), 1 + threshold
    ticks = "".join(
        f'<text class="tick" x="{x(tick):.1f}" y="{height - 4}" text-anchor="middle">'
        f"{tick:.2f}</text>"
        for tick in (math.exp(-reach / 1.15), 1.0, math.exp(reach / 1.15))
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f'<rect class="band" x="{x(least):.1f}" width="{x(most) - x(least):.1f}" y="{_TOP - 6}"'
        f' height="40"/>'
        f'<line class="grid" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP - 6}" y2="{_TOP + 34}"/>'
        f'<line class="interval" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{middle}"'
        f' y2="{middle}"/>'
        f'<circle class="ratio" cx="{x(ratio):.1f}" cy="{middle}" r="5"/>{ticks}</svg>'
    )


def _steps(most: float) -> list[float]:
    """Three to six round numbers from zero up."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(s * power for s in (0.2, 0.25, 0.5, 1.0, 2.0) if most / (s * power) <= 5.5)
    return [step * i for i in range(math.floor(most / step) + 1)]
