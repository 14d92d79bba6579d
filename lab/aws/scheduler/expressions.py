"""Schedule expressions: rate(...), cron(...) and at(...), and when they are due. Pure.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_RATE = re.compile(r"rate\(([1-9]\d*) (minute|hour|day)s?\)")
_CRON = re.compile(r"cron\((.*)\)")
_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
# A day that a cron expression names may be four years away, or eight around a year like 2100.
_MOST_DAYS = 9 * 366


class BadExpression(ValueError):
    """An expression that EventBridge Scheduler refuses."""


class Expression(Protocol):
    """When a schedule runs."""

    def due_after(
        self, moment: datetime.datetime, started: datetime.datetime
    ) -> datetime.datetime | None:
        """The first time later than `moment`, in its time zone; None when there is none.

        `started` is when the schedule began to apply.
        """


def parse(expression: str) -> Expression:
    """Read an expression. Raises BadExpression."""
    if match := _RATE.fullmatch(expression):
        return Rate(int(match[1]) * UNIT_SECONDS[match[2]])
    if match := _CRON.fullmatch(expression):
        return Cron.of(match[1])
    if match := _AT.fullmatch(expression):
        try:
            return Once(datetime.datetime.fromisoformat(match[1]))
        except ValueError:
            pass
    raise BadExpression(f"Invalid Schedule Expression {expression}.")


@dataclass(frozen=True)
class Rate:
    """At regular intervals, beginning at the start."""

    seconds: float

    def due_after(
        self, moment: datetime.datetime, started: datetime.datetime
    ) -> datetime.datetime | None:
        """See `Expression`."""
        if moment < started:
            return started
        passed = (moment - started).total_seconds() // self.seconds
        return started + datetime.timedelta(seconds=(passed + 1) * self.seconds)


@dataclass(frozen=True)
class Once:
    """At one time, without a time zone of its own."""

    time: datetime.datetime

    def due_after(
        self, moment: datetime.datetime, started: datetime.datetime
    ) -> datetime.datetime | None:
        """See `Expression`."""
        due = self.time.replace(tzinfo=moment.tzinfo)
        return due if due > moment else None


@dataclass(frozen=True)
class Cron:
    """At the minutes that six fields name; one of both day fields is None, the question mark."""

    minutes: frozenset[int]
    hours: frozenset[int]
    month_day: str | None
    months: frozenset[int]
    week_day: str | None
    years: frozenset[int]

    @classmethod
    def of(cls, fields: str) -> Cron:
        """Read the six fields. Raises BadExpression."""
        bad = BadExpression(f"Invalid Schedule Expression cron({fields}).")
        parts = fields.split()
        if len(parts) != 6:
            raise bad
        minute, hour, month_day, month, week_day, year = (part.upper() for part in parts)
        if (month_day == "?") == (week_day == "?"):
            raise bad
        try:
            expression = cls(
                minutes=_values(minute, 0, 59),
                hours=_values(hour, 0, 23),
                month_day=None if month_day == "?" else month_day,
                months=_values(_numbered(month, _MONTHS), 1, 12),
                week_day=None if week_day == "?" else _numbered(week_day, _DAYS),
                years=_values(year, 1970, 2199),
            )
            # A month of 31 days that begins on a Saturday has every day that may be named.
            list(expression._days_of(2022, 1))
        except ValueError as error:
            raise bad from error
        return expression

    def due_after(
        self, moment: datetime.datetime, started: datetime.datetime
    ) -> datetime.datetime | None:
        """See `Expression`."""
        earliest = max(moment, started - datetime.timedelta(microseconds=1))
        day = earliest.date()
        for _ in range(_MOST_DAYS):
            if day.year > max(self.years):
                return None
            if self._names(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        due = datetime.datetime.combine(
                            day, datetime.time(hour, minute), tzinfo=earliest.tzinfo
                        )
                        if due > earliest:
                            return due
            day += datetime.timedelta(days=1)
        return None

    def _names(self, day: datetime.date) -> bool:
        return (
            day.year in self.years
            and day.month in self.months
            and day.day in self._days_of(day.year, day.month)
        )

    def _days_of(self, year: int, month: int) -> frozenset[int]:
        """The days of a month that the expression names. Raises ValueError for a bad field."""
        last = calendar.monthrange(year, month)[1]
        if self.month_day is not None:
            return _month_days(self.month_day, year, month, last)
        assert self.week_day is not None
        return _week_days(self.week_day, year, month, last)


def _month_days(field: str, year: int, month: int, last: int) -> frozenset[int]:
    if field == "L":
        return frozenset({last})
    if field == "LW":
        return frozenset({_nearest_work_day(year, month, last, last)})
    if match := re.fullmatch(r"(\d+)W", field):
        (day,) = _values(match[1], 1, 31)
        return frozenset({_nearest_work_day(year, month, min(day, last), last)})
    return frozenset(day for day in _values(field, 1, 31) if day <= last)


def _nearest_work_day(year: int, month: int, day: int, last: int) -> int:
    """The day from Monday to Friday in the same month that is nearest to a day."""
    weekday = datetime.date(year, month, day).weekday()
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < last else day - 2
    return day


def _week_days(field: str, year: int, month: int, last: int) -> frozenset[int]:
    """The days of the month on some days of the week, of which Sunday is the first."""
    if field == "L":
        field = "7"
    if match := re.fullmatch(r"(\d)L", field):
        (weekday,) = _values(match[1], 1, 7)
        return frozenset({max(_days_on(weekday, year, month, last))})
    if match := re.fullmatch(r"(\d)#(\d)", field):
        (weekday,) = _values(match[1], 1, 7)
        (number,) = _values(match[2], 1, 5)
        days = list(_days_on(weekday, year, month, last))
        return frozenset(days[number - 1 : number])
    return frozenset(
        day for weekday in _values(field, 1, 7) for day in _days_on(weekday, year, month, last)
    )


def _days_on(week_day: int, year: int, month: int, last: int) -> Iterator[int]:
    first = (week_day - 2 - datetime.date(year, month, 1).weekday()) % 7 + 1
    return iter(range(first, last + 1, 7))


def _numbered(field: str, names: tuple[str, ...]) -> str:
    """A field with numbers in place of names, of which the first is 1."""
    for number, name in enumerate(names, start=1):
        field = field.replace(name, str(number))
    return field


def _values(field: str, least: int, most: int) -> frozenset[int]:
    """The numbers of a field of lists, ranges and steps. Raises ValueError."""
    values: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        if match is None:
            raise ValueError(part)
        first, end, step = match.groups()
        low = least if first is None else int(first)
        high = int(end) if end else low if first is not None and step is None else most
        if not least <= low <= high <= most or step == "0":
            raise ValueError(part)
        values.update(range(low, high + 1, int(step or 1)))
    return frozenset(values)
