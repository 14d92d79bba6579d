"""An arm's values by pair of nodes, direction and block, and their additive fit. Pure.

The logarithm of a value is modeled as the sum of the level of its pair in its direction, the effect
of its block, and noise. The least-squares fit of pairs and blocks together keeps a lost trial from
shifting either: without it, a pair that lost its fast blocks would look slow.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Value(NamedTuple):
    """The value of a trial, with its pair and block."""

    block: int
    client: str
    server: str
    value: float

    @property
    def has_logarithm(self) -> bool:
        """Whether it is positive and finite."""
        return self.value > 0 and math.isfinite(self.value)


@dataclass(frozen=True)
class Layout:
    """Logarithms of values, or of ratios of values, by row and block.

    Attributes:
        logs: shape (rows, blocks), NaN where a value is missing. Repeated values are their mean.
        rows: the client and the server of each row. Each direction of a pair is a row.
        numbers: the numbers of the blocks, ascending.
    """

    logs: Floats
    rows: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, values: Iterable[Value]) -> Layout:
        """The layout of values that have logarithms."""
        all_values = list(values)
        numbers = tuple(sorted({value.block for value in all_values}))
        rows = tuple(sorted({(value.client, value.server) for value in all_values}))
        column = {block: index for index, block in enumerate(numbers)}
        row = {pair: index for index, pair in enumerate(rows)}
        total = np.zeros((len(rows), len(numbers)))
        count = np.zeros((len(rows), len(numbers)))
        at = ([row[v.client, v.server] for v in all_values], [column[v.block] for v in all_values])
        np.add.at(total, at, [math.log(v.value) for v in all_values])
        np.add.at(count, at, 1.0)
        logs = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        return cls(logs, rows, numbers)

    def only(self, blocks: Iterable[int]) -> Layout:
        """The layout of these blocks alone, without rows that have no value there."""
        chosen = set(blocks)
        columns = [index for index, number in enumerate(self.numbers) if number in chosen]
        logs = self.logs[:, columns]
        return _without_empty_rows(logs, self.rows, tuple(self.numbers[i] for i in columns))

    def minus(self, other: Layout) -> Layout:
        """The differences in the rows and blocks that both layouts have."""
        both = [row for row in self.rows if row in other.rows]
        numbers = tuple(number for number in self.numbers if number in other.numbers)
        parts = [
            layout.logs[
                np.ix_([*map(layout.rows.index, both)], [*map(layout.numbers.index, numbers)])
            ]
            for layout in (self, other)
        ]
        differences = _without_empty_rows(parts[0] - parts[1], tuple(both), numbers)
        there = np.isfinite(differences.logs).any(axis=0)
        return differences.only(number for number, any_ in zip(numbers, there, strict=True) if any_)

    @functools.cached_property
    def pairs(self) -> tuple[frozenset[str], ...]:
        """The pairs of nodes, each once for both directions."""
        return tuple(dict.fromkeys(map(frozenset, self.rows)))

    @functools.cached_property
    def present(self) -> NDArray[np.bool_]:
        """Where there is a value, shape (rows, blocks)."""
        return np.isfinite(self.logs)

    @functools.cached_property
    def block_effects(self) -> Floats:
        """Each block's effect on all rows, shape (blocks,).

        The mean over the blocks of each part of the design is zero (`parts`).
        """
        mask = self.present.astype(np.float64)
        of_row = mask.sum(axis=1)
        filled = np.where(self.present, self.logs, 0.0)
        centred = np.where(self.present, self.logs - (filled.sum(axis=1) / of_row)[:, None], 0.0)
        # The normal equations of the two-way fit without its row levels. They have no unique
        # solution, and the one of least norm has a mean of zero in each part of the design.
        normal = np.diag(mask.sum(axis=0)) - mask.T @ (mask / of_row[:, None])
        return np.asarray(np.linalg.lstsq(normal, centred.sum(axis=0), rcond=1e-9)[0])

    @functools.cached_property
    def row_levels(self) -> Floats:
        """Each row's mean without the effects of the blocks, shape (rows,)."""
        return np.asarray(np.nanmean(self.logs - self.block_effects[None, :], axis=1))

    @functools.cached_property
    def pair_levels(self) -> Floats:
        """Each pair's mean of its directions, shape (pairs,)."""
        position = {pair: index for index, pair in enumerate(self.pairs)}
        index = np.array([position[frozenset(row)] for row in self.rows], dtype=int)
        return np.asarray(np.bincount(index, self.row_levels) / np.bincount(index))

    @functools.cached_property
    def level(self) -> float:
        """The mean of the pairs, which have equal weight."""
        return float(self.pair_levels.mean())

    @functools.cached_property
    def parts(self) -> tuple[int, ...]:
        """Number of blocks in each part of the design.

        With alternating directions, odd and even blocks have no row in common, so the design has
        two parts. The difference between them is that of the directions and not of time.
        """
        shares_row = (self.present.T.astype(int) @ self.present.astype(int)) > 0
        left, sizes = set(range(len(self.numbers))), []
        while left:
            part = {left.pop()}
            while new := {b for a in part for b in left if shares_row[a, b]}:
                part |= new
                left -= new
            sizes.append(len(part))
        return tuple(sizes)

    @functools.cached_property
    def units(self) -> Floats:
        """Independent estimates of the level, shape (units,); empty if there are none.

        If pairs share no node, the pairs are the units. If pairs share nodes, a slow node slows all
        its pairs, so the units are the nodes, with their jackknife pseudo-values.
        """
        nodes = sorted(frozenset().union(*self.pairs))
        count = len(self.pairs)
        if len(nodes) == 2 * count:
            return self.pair_levels
        member = np.array([[node in pair for pair in self.pairs] for node in nodes])
        left = count - member.sum(axis=1)
        if (left == 0).any():
            return self.pair_levels[:0]
        without = (self.pair_levels.sum() - member @ self.pair_levels) / left
        return np.asarray(len(nodes) * self.level - (len(nodes) - 1) * without)

    @functools.cached_property
    def noise(self) -> float | None:
        """Variance of the noise that is due to neither pair nor block; None if it is unknown."""
        rows, blocks = self.logs.shape
        freedom = int(self.present.sum()) - rows - blocks + len(self.parts)
        if freedom < 1:
            return None
        inner = self.logs - self.row_levels[:, None] - self.block_effects[None, :]
        return float(np.nansum(inner**2) / freedom)

    @property
    def noise_of_level(self) -> float:
        """The part of the level's variance that is due to the noise of single trials."""
        return (self.noise or 0.0) / max(1, int(self.present.sum()))

    @functools.cached_property
    def block_deviations(self) -> Floats:
        """How far each block is from the other blocks' level, shape (at most the blocks,).

        It is the mean, over the rows, of the absolute deviation from the row's median. The values
        of a row are nearer to their own median than to the true one, which a factor corrects. The
        middle value of an odd number is its own median, tells nothing, and is left out.
        """
        logs = self.logs[self.present.sum(axis=1) > 1]
        if not logs.size:
            return np.array([])
        sizes = np.isfinite(logs).sum(axis=1)
        ordered, each = np.sort(logs, axis=1), np.arange(len(logs))  # NaN comes last
        medians = (ordered[each, (sizes - 1) // 2] + ordered[each, sizes // 2]) / 2
        away = np.abs(logs - medians[:, None])
        away *= np.sqrt(sizes / (sizes - 1))[:, None]
        odd = np.flatnonzero(sizes % 2)
        away[odd, np.nanargmin(away[odd], axis=1)] = np.nan
        return np.asarray(np.nanmean(away[:, np.isfinite(away).any(axis=0)], axis=0))

    def variance_between_pairs(self) -> float | None:
        """Variance between pairs without the part due to noise; None with one pair."""
        count = len(self.pairs)
        if count < 2:
            return None
        noise = self.noise_of_level * count
        return max(0.0, float(self.pair_levels.var(ddof=1)) - noise)


def _without_empty_rows(
    logs: Floats, rows: Sequence[tuple[str, str]], numbers: tuple[int, ...]
) -> Layout:
    filled = np.flatnonzero(np.isfinite(logs).any(axis=1)) if logs.size else np.array([], dtype=int)
    return Layout(logs[filled], tuple(rows[index] for index in filled), numbers)
