"""Times in which AWS answers the command with errors, as in seconds of throttling."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.faults.apis import ApiFaults
from lab.faults.leases import Order

#: What strikes the calls of the command alone, by the key that only it has.
COMMAND_KEY = "AKIAOFTHECOMMAND0000"
#: How many calls an outage of some seconds strikes: more than botocore tries by itself.
OUTAGE = 5
ENDLESS = sys.maxsize
FAULTS = ApiFaults(lambda key: "command" if key == COMMAND_KEY else "test")


@dataclass
class Outage(Order):
    """Errors that end after so many calls."""

    most: int = 0

    def hit(self) -> None:
        """Count the call."""
        super().hit()
        if self.hits == self.most:
            self.rate = 0.0


@contextmanager
def outage(on: str, *, fault: str = "api-failing", most: int = OUTAGE) -> Iterator[Outage]:
    """Let the calls `on`, such as `states:*`, fail: with 503, unless `fault` is `api-throttled`."""
    options = {"callers": "command"}
    if fault == "api-failing":
        options["error"] = "ServiceUnavailable"
    order = Outage(fault, on, options=options, most=most)
    with FAULTS.injectors[fault](order):
        yield order
