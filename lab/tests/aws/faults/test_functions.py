"""A fault of a function ends or holds its process, as Lambda would report it."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from lab.tests.aws.region import Lab, eventually

SLOW = """
import time
def handler(event, context):
    until = time.monotonic() + event.get("seconds", 1)
    while time.monotonic() < until:
        time.sleep(0.01)
    return "done"
"""
# It tells its process before its first event, for a fault can strike before a handler begins.
PATIENT = """
import os
import pathlib
import time
directory = pathlib.Path({directory!r})
(directory / "process").write_text(str(os.getpid()))
def handler(event, context):
    while not (directory / "until").exists():
        time.sleep(0.01)
    return "done"
"""
GREEDY = """
import time
def handler(event, context):
    kept = []
    while len(kept) < event.get("mebibytes", 100):
        kept.append(bytearray(b"x" * 2**20))
        time.sleep(event.get("pause", 0))
    return "done"
"""


def test_a_crash_ends_the_invocation_with_lambdas_error_and_the_next_one_runs(lab: Lab) -> None:
    name = lab.function(SLOW, Timeout=120)
    with lab.fault("function-crash", on=name) as fault:
        assert lab.invoke(name, seconds=60)["errorType"] == "Runtime.ExitError"
        assert fault.hits == 1
    assert lab.invoke(name, seconds=0.1) == "done"


def test_a_crash_spares_other_functions(lab: Lab) -> None:
    name, other = lab.function(SLOW), lab.function(SLOW)
    with lab.fault("function-crash", on=name) as fault:
        assert lab.invoke(other, seconds=0.2) == "done"
        assert fault.hits == 0


def test_a_frozen_function_times_out(lab: Lab, tmp_path: Path) -> None:
    name = lab.function(PATIENT.format(directory=str(tmp_path)), Timeout=5)
    with (
        lab.fault("function-frozen", on=name),
        ThreadPoolExecutor() as pool,
    ):
        response = freeze(lab, name, tmp_path, pool)
        assert response.result()["errorType"] == "Sandbox.Timedout"


def test_a_frozen_function_runs_on_when_the_fault_is_taken_back(lab: Lab, tmp_path: Path) -> None:
    name = lab.function(PATIENT.format(directory=str(tmp_path)), Timeout=120)
    with ThreadPoolExecutor() as pool:
        with lab.fault("function-frozen", on=name):
            response = freeze(lab, name, tmp_path, pool)
            assert not wait([response], timeout=0.2).done
        assert response.result() == "done"


def freeze(lab: Lab, name: str, directory: Path, pool: ThreadPoolExecutor) -> Future[Any]:
    """Invoke a function, and let it end once it is frozen; returns what it will answer."""
    process, until = directory / "process", directory / "until"
    response = pool.submit(lab.invoke, name)

    def stopped() -> bool:
        number = process.read_text() if process.exists() else ""
        return bool(number) and "State:\tT" in Path("/proc", number, "status").read_text()

    eventually(stopped, bool)
    until.touch()
    return response


def test_a_function_without_memory_is_killed(lab: Lab) -> None:
    name = lab.function(GREEDY, MemorySize=512)
    assert lab.invoke(name) == "done"
    with lab.fault("function-out-of-memory", on=name, after="0"):
        # It takes 8 s to get all, so that the fault is there before on a busy machine too.
        response = lab.invoke(name, mebibytes=400, pause=0.02)
        assert response["errorType"] == "Runtime.ExitError"
    assert lab.invoke(name) == "done"


def test_a_starved_function_takes_longer(lab: Lab) -> None:
    busy = """
def handler(event, context):
    import time
    used = time.process_time()
    while time.process_time() - used < 0.3:
        pass
    return "done"
"""
    # A busy machine starves it too.
    name = lab.function(busy, Timeout=120)
    lab.invoke(name)
    started = time.monotonic()
    with lab.fault("function-starved", on=name, rate=0.8, after="0"):
        assert lab.invoke(name) == "done"
    # A fifth of the time is left for 0.3 s of work; a busy machine takes longer still.
    assert time.monotonic() - started > 1.0
