"""Times as they are stored: ISO 8601, UTC, to the millisecond."""

from __future__ import annotations

import datetime


def now() -> str:
    """The current time in ISO 8601, UTC, to the millisecond."""
    return iso(datetime.datetime.now(datetime.UTC))


def later(start: str, seconds: float) -> str:
    """The ISO 8601 time so many seconds after another; before it, if they are negative."""
    return iso(datetime.datetime.fromisoformat(start) + datetime.timedelta(seconds=seconds))


def seconds_between(start: str, end: str) -> float:
    """Seconds from one ISO 8601 time to another."""
    parse = datetime.datetime.fromisoformat
    return (parse(end) - parse(start)).total_seconds()


def next_wait(waited: float, *, least: int = 2, most: int = 30, share: float = 0.2) -> int:
    """How many seconds to wait before the next question: a share of the time that went by so far.

    With the usual most, the history of a campaign of sixty steps stays below Step Functions' limit
    of 25 000 events.
    """
    return int(min(max(least, share * waited), most))


def iso(time: datetime.datetime) -> str:
    """A time with its zone in ISO 8601, UTC, to the millisecond."""
    in_utc = time.astimezone(datetime.UTC)
    return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
