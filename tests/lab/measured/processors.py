"""How much processor time was idle, and how much other machines of the same host took."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: What counts as quiet in so many seconds. The lab itself needs some processor time.
PROBE_SECONDS, LEAST_IDLE, MOST_STOLEN = 5, 0.4, 0.01


class Shares(NamedTuple):
    """Shares of the processor time between two moments."""

    idle: float
    stolen: float

    def __str__(self) -> str:
        return f"{self.idle:.0%} of processor time idle, {self.stolen:.1%} taken by other machines"


def _ticks() -> tuple[int, int, int]:
    """All, idle and stolen processor time since the start (`/proc/stat` in proc(5))."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4], ticks[7]


def _since(before: tuple[int, int, int]) -> Shares:
    total, idle, stolen = (b - a for a, b in zip(before, _ticks(), strict=True))
    return Shares(idle / max(1, total), stolen / max(1, total))


def wait_until_quiet(seconds: float) -> None:
    """Wait until little runs, for so many seconds at most; then warn and go on."""
    deadline = time.monotonic() + seconds
    while True:
        before = _ticks()
        time.sleep(PROBE_SECONDS)
        shares = _since(before)
        if shares.idle >= LEAST_IDLE and shares.stolen <= MOST_STOLEN:
            return
        if time.monotonic() > deadline:
            warnings.warn(f"measuring on a machine that is not quiet: {shares}", stacklevel=2)
            return


@contextlib.contextmanager
def warning_of_theft(what: str) -> Iterator[None]:
    """Warn if other machines took processor time meanwhile: figures are then too low."""
    before = _ticks()
    yield
    shares = _since(before)
    if shares.stolen > MOST_STOLEN:
        warnings.warn(f"{what}: {shares}", stacklevel=3)
