"""The status strip at the top of a page: one tile for each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rackrate.report.comparisons import word
from rackrate.report.markup import text
from rackrate.verdict.model import Word
from rackrate_text.words import counted

#: The most tiles of a page. More are not read at a glance, and the table below has all.
_MOST = 12


@dataclass(frozen=True)
class Tile:
    """A comparison at a glance.

    Attributes:
        anchor: the id of the section about it.
        subject: the test and the metric.
        sides: the two sides; empty if all tiles have the same, which the headline names.
        change: the change against the baseline, such as `+101 %`.
        levels: the levels of both, such as `488 → 980 Mbit/s`; None if one is unknown.
        word: the verdict.
        lacks: what an inconclusive one lacks; None if that is not known.
        scope: what it applies to.
        drifted: whether one arm drifted alone.
    """

    anchor: str
    subject: str
    sides: str
    change: str
    levels: str | None
    word: Word
    lacks: str | None
    scope: str
    drifted: bool = False


def strip(tiles: Sequence[Tile], table: str) -> str:
    """The tiles as a list of links.

    Args:
        tiles: the tiles, in the order of the table.
        table: the id of the section with the table of all comparisons.
    """
    if not tiles:
        return ""
    shown = "".join(map(_tile, tiles[:_MOST]))
    left = len(tiles) - _MOST
    more = (
        f'<p class="quiet">And <a href="#{table}">{counted(left, "more comparison")}</a>.</p>'
        if left > 0
        else ""
    )
    return f'<ul class="tiles">{shown}</ul>{more}'


def _tile(tile: Tile) -> str:
    lines = [
        f'<a href="#{escape(tile.anchor, quote=True)}">{text(tile.subject)}</a>',
        f'<span class="quiet">{text(tile.sides)}</span>' if tile.sides else "",
        f'<span class="change">{text(tile.change)}</span>',
        f'<span class="level">{text(tile.levels)}</span>' if tile.levels else "",
        word(tile.word, drifted=tile.drifted),
        f'<span class="quiet">{text(tile.lacks)}</span>' if tile.lacks else "",
        f'<span class="quiet">{text(tile.scope)}</span>',
    ]
    return f"<li>{''.join(line for line in lines if line)}</li>"
