"""What the roles of stacks were allowed and what they called, in every lab of a test run.

The labs of a run are several and are gone when the record is read: each leaves a file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import daemon, stack
from lab.aws.authorization.audit import RECORD_FILE, Call, deployed_policies, read_calls
from tests.lab.running import Lab

DIRECTORY = stack.REPOSITORY / "build" / "permissions"
CORE, REST = "core", "rest"


@dataclass(frozen=True)
class Record:
    """The statements of each role by its logical id, the calls, and what ran.

    `files` has the test files, each below the part of the suite whose tests ran: `core/test_x.py`.
    """

    policies: dict[str, list[dict[str, Any]]]
    calls: list[Call]
    files: set[str]


def remember(lab: Lab) -> None:
    """Note the policies of the stacks as they are deployed in a lab now."""
    deployed = deployed_policies(lab.aws("cloudformation"), lab.aws("iam"))
    for role, statements in deployed.items():
        policies = lab.policies.setdefault(role, [])
        policies.extend(statement for statement in statements if statement not in policies)


def of_lab(lab: Lab, items: Iterable[pytest.Item]) -> Record:
    """The record of the lab that is up, in which these tests ran."""
    files = {
        f"{CORE if each.get_closest_marker(CORE) else REST}/{each.path.name}" for each in items
    }
    calls = read_calls(daemon.state_directory() / "aws" / RECORD_FILE)
    return Record(lab.policies, calls, files)


def write(record: Record, selected: str, name: str) -> None:
    """Leave a lab's record of the selected tests for the test that reads all of them."""
    directory(selected).mkdir(parents=True, exist_ok=True)
    written = {
        "policies": record.policies,
        "calls": [asdict(call) for call in record.calls],
        "files": sorted(record.files),
    }
    (directory(selected) / f"{name}.json").write_text(json.dumps(written), "utf-8")


def directory(selected: str) -> Path:
    """Where the records of selected tests are, for the sources that are deployed now."""
    return DIRECTORY / stack.digest_of_sources() / (selected or "all")


def forget(selected: str) -> None:
    """Remove the records of an earlier run of the selected tests."""
    shutil.rmtree(directory(selected), ignore_errors=True)


def merged(own: Record) -> Record:
    """A lab's record together with those that other labs left."""
    policies = {role: list(statements) for role, statements in own.policies.items()}
    calls, files = list(own.calls), set(own.files)
    for path in sorted(directory("").parent.rglob("*.json")):
        read = json.loads(path.read_text("utf-8"))
        for role, statements in read["policies"].items():
            policies.setdefault(role, []).extend(statements)
        calls.extend(Call(**call) for call in read["calls"])
        files.update(read["files"])
    return Record(policies, calls, files)
