"""Shows what the lab is doing: one changing line on a terminal, else a line for each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that announces the step that begins, with the time since the start."""
    started = time.monotonic()
    with console.status("starting") as status:  # which shows nothing but on a terminal

        def say(step: str) -> None:
            console.print(f"{time.monotonic() - started:5.0f} s  {step}", markup=False)
            status.update(step)

        yield say
