"""Try a fault: start what it meets, make it, wait for the end, and look at what there is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.catalogue import Case
from tests.faults.scene import (
    CAMPAIGN_PLAN,
    CAMPAIGN_STEPS,
    CAMPAIGN_TRIALS,
    PLAN,
    TRIALS,
    Scene,
    present,
)
from tests.lab.running import Lab
from tests.lab.waiting import BUSY, eventually

#: How long a run may take after its fault, on an idle machine.
END_SECONDS = 300.0
#: How long what is left may take to go.
GONE_SECONDS = 60.0
#: What belongs into the logs and not into a sentence for people.
_DOCUMENT = re.compile(r"errorMessage|stackTrace|Traceback|File \"")
_REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_readable(sentence: str) -> bool:
    """Whether a sentence is for people: no document of a program, and at most one request's id."""
    return not _DOCUMENT.search(sentence) and len(_REQUEST_ID.findall(sentence)) <= 1


@dataclass(frozen=True)
class Tried:
    """What a fault did.

    Attributes:
        case: the fault.
        planned: how many trials were planned.
        measured: how many of them have a value in the end.
        lost: how many of the others could have been measured again.
        left: what is there that was not before.
        seconds: from the fault to the end.
        sentence: what the person reads; empty where all went well.
        wrong: what is not as the fault's case says.
    """

    case: Case
    planned: int
    measured: int
    lost: int
    left: tuple[str, ...]
    seconds: float
    sentence: str
    wrong: tuple[str, ...]


def attempt(lab: Lab, case: Case, name: str) -> Tried:
    """Try a fault on a run or a campaign of this name."""
    in_campaign = case.of == "campaign"
    scene = Scene(lab, name, f"{name}-01" if in_campaign else name)
    before = present(lab)
    if in_campaign:
        plan, what = CAMPAIGN_PLAN, ("campaign", "run", "--draws", str(CAMPAIGN_STEPS))
    else:
        plan, what = PLAN, ("run",)
    code, status, took = _meet(scene, case, plan, what)
    wrong = [] if code is not None else [f"it had not ended after {BUSY * END_SECONDS:.0f} s"]
    sentence = _sentence(scene)
    name_measured = name
    if case.stops and status != "succeeded":
        name_measured, again = _continue(scene)
        wrong += again
    runs = [name_measured, *scene.others]
    if in_campaign:
        runs = [f"{name}-{number:02d}" for number in range(1, CAMPAIGN_STEPS + 1)]
    for other in scene.others:
        _until_over(scene, other)
    planned = CAMPAIGN_TRIALS if in_campaign else TRIALS * len(runs)
    measured = sum(_measured(lab, run) for run in runs)
    left = _left(lab, before)
    error = str(lab.record(name_measured).get("error") or "")
    lost = planned - measured
    expected = (word.format(**{"name": name, **scene.notes}) for word in case.words)
    wrong += [f"the sentence lacks {word!r}" for word in expected if word not in sentence]
    if case.ends and error in case.ends:
        # What no node is left for could not have been measured.
        lost = 0
    elif case.complains:
        wrong += [] if code else ["exit code 0"]
    elif case.ends:
        wrong.append(f"it ended with {error or status}, not with {' or '.join(case.ends)}")
    elif not case.stops and code:
        wrong.append(f"exit code {code}")
    if not is_readable(sentence):
        wrong.append("the sentence holds what belongs into the logs")
    return Tried(case, planned, measured, lost, left, took, sentence, tuple(wrong))


def _meet(
    scene: Scene, case: Case, plan: Mapping[str, Any], what: Sequence[str]
) -> tuple[int | None, str, float]:
    """Start what the fault meets, make the fault, and wait for the end.

    Returns the command's exit code, None if it had not ended, the recorded status, and how long it
    took from the fault to the end.
    """
    with case.around(scene):
        place = ("--name", scene.name, "--out", str(scene.lab.directory), "--json")
        scene.start(*what, *("--plan", scene.plan_path), *place, plan=plan)
        if case.block:
            scene.begins_block(min(case.block, plan["blocks"]))
        else:
            scene.shows("waiting for servers")
        began = time.monotonic()
        with case.act(scene):
            if case.seconds:
                _wait(scene, case.seconds)
        _wait(scene, BUSY * END_SECONDS)
        code = scene.command.poll() if scene.command is not None else None
        if code is None:
            scene.command.kill()
            scene.command.wait()
        return code, _until_over(scene, scene.name), time.monotonic() - began


def _wait(scene: Scene, seconds: float) -> None:
    """Wait until the user's command is over, or the time is."""
    deadline = time.monotonic() + seconds
    while scene.command is not None and scene.command.poll() is None:
        if time.monotonic() > deadline:
            return
        time.sleep(0.2)


def _until_over(scene: Scene, name: str) -> str:
    """The status of a run or a campaign whose end is recorded."""
    if scene.run_id != scene.name and name == scene.name:
        return ""

    def over() -> str:
        status = str(scene.lab.record(name).get("status") or "none")
        return "" if status == "running" else status

    return eventually(over, seconds=END_SECONDS, poll_seconds=0.5)


def _sentence(scene: Scene) -> str:
    """What the command reported to the person about what went wrong."""
    lines = scene.output("err").read_text("utf-8").splitlines()
    try:
        document: Mapping[str, Any] = json.loads(scene.output("out").read_text("utf-8"))
    except ValueError:
        return " ".join(lines[-3:])
    error = document.get("error")
    if error:
        return str(error)
    if scene.command is not None and scene.command.returncode:
        return " ".join(lines[-3:])
    run = document.get("results") or {}
    return " ".join(str(each) for each in (run.get("warnings") or [])[:1])


def _continue(scene: Scene) -> tuple[str, list[str]]:
    """Continue a run that was stopped. Returns the run that has all trials, and what was wrong."""
    done = scene.lab.command(
        *scene.cli("run", "--continue", scene.name, "--json", "--out", str(scene.lab.directory)),
        check=False,
        seconds=END_SECONDS,
    )
    if done.returncode:
        return scene.name, [f"continued with exit code {done.returncode}: {done.stderr[-200:]}"]
    return str(json.loads(done.stdout)["run"]["id"]), []


def _measured(lab: Lab, run: str) -> int:
    """How many trials of a run have a value."""
    return sum(trial["status"] == "measured" for trial in lab.items(run, "trial#"))


def _left(lab: Lab, before: set[str]) -> tuple[str, ...]:
    """What is there that was not before, after some time."""
    deadline = time.monotonic() + BUSY * GONE_SECONDS
    while (left := sorted(present(lab) - before)) and time.monotonic() < deadline:
        time.sleep(1)
    return tuple(left)
