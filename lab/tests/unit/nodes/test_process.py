"""A supervised program starts again, and one that is not stays ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nodes.process import Process, wait_until


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    program = Process("sleeper", ["sleep", "60"], tmp_path / "sleeper.log")
    yield program
    program.stop()


def until(process: Process, *, running: bool) -> None:
    wait_until(
        lambda: process.running == running, seconds=10, describe=lambda: "no", poll_seconds=0.01
    )


def test_a_program_that_fails_before_it_is_supervised_stays_ended(sleeper: Process) -> None:
    sleeper.signal(signal.SIGKILL)
    until(sleeper, running=False)
    time.sleep(0.2)
    assert not sleeper.running


def test_a_supervised_program_starts_again_each_time(sleeper: Process) -> None:
    sleeper.supervise(0.01)
    for _ in range(3):
        before = sleeper.pid
        sleeper.signal(signal.SIGKILL)
        wait_until(
            lambda before=before: sleeper.running and sleeper.pid != before,  # type: ignore[misc]
            seconds=10,
            describe=lambda: "it did not start again",
            poll_seconds=0.01,
        )


def test_a_held_program_starts_only_when_it_is_let(sleeper: Process) -> None:
    sleeper.supervise(0.01)
    sleeper.hold()
    time.sleep(0.2)
    assert not sleeper.running
    sleeper.let()
    until(sleeper, running=True)


@pytest.mark.parametrize("held", [False, True])
def test_a_program_that_the_lab_stops_stays_ended(sleeper: Process, held: bool) -> None:
    sleeper.supervise(0.01)
    if held:
        sleeper.hold()
    sleeper.stop()
    time.sleep(0.2)
    assert not sleeper.running


def test_a_condition_that_cannot_be_asked_does_not_hold_yet() -> None:
    answers: Iterator[Exception | bool] = iter([OSError("busy"), False, OSError("late"), True])

    def condition() -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait_until(condition, seconds=10, describe=lambda: "no", poll_seconds=0.001)


def test_a_wait_that_is_over_says_why_its_condition_could_not_be_asked() -> None:
    def condition() -> bool:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(TimeoutError, match=r"^not there \(nobody listens\)$"):
        wait_until(condition, seconds=0.01, describe=lambda: "not there", poll_seconds=0.001)
