"""Schedule expressions are accepted, refused and due as with EventBridge Scheduler."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.aws.scheduler.expressions import BadExpression, parse

UTC = datetime.UTC
SUNDAY = datetime.datetime(2026, 11, 22, 20, 46, 30, tzinfo=UTC)


def due(expression: str, count: int = 3, moment: datetime.datetime = SUNDAY) -> list[str]:
    result = []
    started = moment
    for _ in range(count):
        following = parse(expression).due_after(moment, started)
        if following is None:
            break
        result.append(following.strftime("%Y-%m-%d %H:%M"))
        moment = following
    return result


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(15 2 * * ? *)", ["2026-11-23 02:15", "2026-11-24 02:15", "2026-11-25 02:15"]),
        ("cron(0/20 20 ? * SUN *)", ["2026-11-29 20:00", "2026-11-29 20:20", "2026-11-29 20:40"]),
        ("cron(50 20 ? * 1 *)", ["2026-11-22 20:50", "2026-11-29 20:50", "2026-12-06 20:50"]),
        ("cron(0 8 ? * MON-FRI *)", ["2026-11-23 08:00", "2026-11-24 08:00", "2026-11-25 08:00"]),
        ("cron(0 8 1 * ? *)", ["2026-12-01 08:00", "2027-01-01 08:00", "2027-02-01 08:00"]),
        ("cron(0 8 L * ? *)", ["2026-11-30 08:00", "2026-12-31 08:00", "2027-01-31 08:00"]),
        ("cron(0 8 LW * ? *)", ["2026-11-30 08:00", "2026-12-31 08:00", "2027-01-29 08:00"]),
        ("cron(0 8 1W * ? *)", ["2026-12-01 08:00", "2027-01-01 08:00", "2027-02-01 08:00"]),
        ("cron(0 8 15W AUG ? 2027)", ["2027-08-16 08:00"]),
        ("cron(0 8 ? * 6L *)", ["2026-11-27 08:00", "2026-12-25 08:00", "2027-01-29 08:00"]),
        ("cron(0 8 ? * 3#2 *)", ["2026-12-08 08:00", "2027-01-12 08:00", "2027-02-09 08:00"]),
        ("cron(0 8 ? JAN,MAR 2#1 *)", ["2027-01-04 08:00", "2027-03-01 08:00", "2028-01-03 08:00"]),
        ("cron(0 0 29 2 ? *)", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("cron(0-15/5 8 ? * 2 2026)", ["2026-11-23 08:00", "2026-11-23 08:05", "2026-11-23 08:10"]),
        ("cron(0 8 31 2 ? *)", []),
        ("cron(0 8 1 1 ? 2026)", []),
        ("at(2026-12-24T18:00:00)", ["2026-12-24 18:00"]),
        ("at(2026-01-01T00:00:00)", []),
        ("rate(30 minutes)", ["2026-11-22 21:16", "2026-11-22 21:46", "2026-11-22 22:16"]),
        ("rate(1 day)", ["2026-11-23 20:46", "2026-11-24 20:46", "2026-11-25 20:46"]),
    ],
)
def test_expression_is_due_when_it_says(expression: str, expected: list[str]) -> None:
    assert due(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        *("", "daily", "rate(5)", "rate(0 minutes)", "rate(-1 hours)", "rate(1.5 hours)"),
        *("rate(5 seconds)", "rate(1  day)", "rate(2 weeks)", "RATE(1 day)", " rate(1 day)"),
        *("cron(0 8 * * *)", "cron(0 8 * * * *)", "cron(0 8 ? * ? *)", "cron(0 8 1 * 2 *)"),
        *("cron(60 8 * * ? *)", "cron(0 24 * * ? *)", "cron(0 8 32 * ? *)", "cron(0 8 0 * ? *)"),
        *("cron(0 8 * 13 ? *)", "cron(0 8 ? * 8 *)", "cron(0 8 ? * 0 *)", "cron(0 8 * * ? 1969)"),
        *("cron(0/0 8 * * ? *)", "cron(5-1 8 * * ? *)", "cron(0 8 ? * 3#6 *)", "cron(a * * * ? *)"),
        *("cron(0 8 ? * 3#1,6#3 *)", "cron(0 8 1,15W * ? *)", "cron(-1 8 * * ? *)"),
        *("at(2026-13-01T00:00:00)", "at(2026-12-24)", "at(2026-12-24T18:00:00Z)"),
    ],
)
def test_expression_that_eventbridge_scheduler_refuses_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression) as raised:
        parse(expression)
    assert str(raised.value) == f"Invalid Schedule Expression {expression}."


def test_rate_runs_at_its_start_and_cron_never_before_it() -> None:
    later = SUNDAY + datetime.timedelta(days=2)
    assert parse("rate(1 hour)").due_after(SUNDAY, later) == later
    assert parse("cron(0 8 * * ? *)").due_after(SUNDAY, later) == datetime.datetime(
        2026, 11, 25, 8, tzinfo=UTC
    )


def test_hours_are_those_of_the_time_zone() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    following = parse("cron(0 3 * * ? *)").due_after(SUNDAY.astimezone(zone), SUNDAY)
    assert following is not None
    assert following.astimezone(UTC).strftime("%H:%M") == "02:00"


@given(
    st.datetimes(datetime.datetime(2020, 1, 1), datetime.datetime(2040, 1, 1)),
    st.sampled_from(
        ["cron(0/7 1-5 * * ? *)", "cron(5 0 L * ? *)", "cron(0 12 ? * FRI *)", "rate(7 hours)"]
    ),
)
def test_next_time_is_later_and_none_between_is_left_out(
    moment: datetime.datetime, expression: str
) -> None:
    moment = moment.replace(tzinfo=UTC)
    read = parse(expression)
    following = read.due_after(moment, moment)
    assert following is not None
    assert following > moment
    just_before = following - datetime.timedelta(microseconds=1)
    if just_before > moment:
        assert read.due_after(just_before, moment) == following
