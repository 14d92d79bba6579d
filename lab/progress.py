"""Shows what the lab is doing: one changing line on a terminal, else a line for each step."""

from __future__ import annotations

import time

from rich.console import Console
from rich.status import Status


class Progress:
    """A context in which `say` announces each step with the time since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._status = self._console.status("starting")
            self._status.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, step: str) -> None:
        """Announce the step that begins."""
        line = f"{time.monotonic() - self._started:5.0f} s  {step}"
        self._console.print(line, markup=False)
        if self._status is not None:
            self._status.update(step)
