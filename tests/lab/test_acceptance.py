"""The acceptance in a lab of its own, and its replay in another one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptance.archive import Archive
from acceptance.comparison import differences
from lab.replay import accepted
from lab.up import prepare
from tests.lab.machine import private_cache

#: What a replay repeats here; other parts take longer.
REPLAYED = ("refusal", "deploy", "run")


def say(step: str) -> None:
    """An acceptance's steps are in the output of a test that failed."""
    print(step)


@pytest.fixture(scope="module")
def own_cache() -> Any:
    """A cache of its own, because a lab of this process may be up."""
    prepare(say)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(private_cache("acceptance")))
        yield


@pytest.fixture(scope="module")
def recorded(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of a short acceptance."""
    return archive_of(["--short"], {}, tmp_path_factory.mktemp("acceptance"))


def archive_of(options: list[str], parameters: dict[str, str], directory: Path) -> Archive:
    """The archive of an acceptance with these options."""
    archive, printed = accepted(options, parameters, directory, say)
    print(printed)
    return Archive.read(archive)


def replayed_parts(parameters: dict[str, str], directory: Path) -> Archive:
    """What a lab answered in the parts that are replayed."""
    archive = archive_of([f"--part={part}" for part in REPLAYED], parameters, directory)
    calls = [call for call in archive.calls if call["part"] in {"before", *REPLAYED}]
    functions = [line for line in archive.functions if line["at"] <= calls[-1]["at"]]
    return replace(archive, calls=calls, functions=functions)


@pytest.fixture(scope="module")
def part_of_it(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return replayed_parts({}, tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def replayed(part_of_it: Archive, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """What a fresh lab answered to the same calls."""
    return replayed_parts(part_of_it.header["parameters"], tmp_path_factory.mktemp("replay"))


@pytest.mark.core
def test_every_check_passes(recorded: Archive) -> None:
    findings = recorded.header["findings"]
    assert [finding for finding in findings if not finding["passed"]] == []
    assert {finding["part"] for finding in findings} == set(recorded.header["parts"])


@pytest.mark.core
def test_it_answers_assumptions_about_aws(recorded: Archive) -> None:
    settled = {anchor for each in recorded.header["findings"] for anchor in each["settles"]}
    assert {"a-new-role", "the-nodes-places", "a-refused-update"} <= settled


@pytest.mark.core
def test_the_archive_records_what_the_functions_did(recorded: Archive) -> None:
    calls = {line.get("call") for line in recorded.functions}
    assert {"eks:DescribeCluster", "ec2:DescribeInstances"} <= calls


def test_a_fresh_lab_answers_alike(part_of_it: Archive, replayed: Archive) -> None:
    assert differences(part_of_it, replayed) == []


def other_code(calls: list[dict[str, Any]]) -> None:
    next(call for call in calls if call["error"])["error"]["Code"] = "AccessDenied"


def lost_field(calls: list[dict[str, Any]]) -> None:
    call = next(
        c for c in calls if c["operation"] == "DescribeExecution" and "output" in c["answer"]
    )
    del call["answer"]["output"]


def other_type(calls: list[dict[str, Any]]) -> None:
    response = next(call["answer"] for call in calls if call["operation"] == "DescribeInstances")
    instance = response["Reservations"][0]["Instances"][0]
    instance["AmiLaunchIndex"] = str(instance["AmiLaunchIndex"])


def other_order(calls: list[dict[str, Any]]) -> None:
    for call in calls:
        if call["operation"] == "DescribeStackEvents":
            call["answer"].get("StackEvents", []).reverse()


def lost_call(calls: list[dict[str, Any]]) -> None:
    calls[:] = [call for call in calls if call["operation"] != "GetCallerIdentity"]


@pytest.mark.parametrize("mutate", [other_code, lost_field, other_type, other_order, lost_call])
def test_a_changed_answer_is_found(
    part_of_it: Archive, replayed: Archive, mutate: Callable[[list[dict[str, Any]]], None]
) -> None:
    changed = copy.deepcopy(part_of_it)
    mutate(changed.calls)
    assert json.dumps(changed.calls) != json.dumps(part_of_it.calls)
    assert differences(changed, replayed)
