"""The looks: after which blocks a run looks at its verdicts, and the error of each look. Pure.

A run may stop after a look. Looking repeatedly with the error of a single look would make more
errors than that (Armitage, McPherson and Rowe, doi 10.2307/2343787), so each look has a smaller
one.
"""

from __future__ import annotations

import math

#: From one look to the next a run measures about half as many blocks again.
GROWTH = 1.5
#: The two-sided error of each look, by the number of looks, so that all looks together have 5 %
#: (Pocock's limits; Jennison and Turnbull, "Group Sequential Methods", table 2.1).
_LEVELS = {1: 0.05, 2: 0.0294, 3: 0.0221, 4: 0.0182}
MOST_LOOKS = max(_LEVELS)


def looks(least: int, most: int) -> tuple[int, ...]:
    """The numbers of blocks after which a run looks: the first is `least`, the last is `most`.

    Args:
        least: the fewest blocks that the run measures, at least 1.
        most: the most blocks that it measures, at least `least`.
    """
    if least == most:
        return (least,)
    apart = most / least
    steps = min(MOST_LOOKS - 1, max(1, round(math.log(apart, GROWTH))))
    growth = max(GROWTH, apart ** (1 / steps))
    between = (round(least * growth**step) for step in range(1, steps))
    return tuple(sorted({least, *between, most}))


def look_level(number: int) -> float:
    """The two-sided error of each of a number of looks, so that all together have 5 %.

    Raises:
        KeyError: the number is not from 1 to `MOST_LOOKS`.
    """
    return _LEVELS[number]
