"""A replay finds what differs between two records, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptance.archive import Archive
from acceptance.comparison import differences


def line(operation: str, answer: Any, *, parameters: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "part": "deploy",
        "program": "samcli",
        "service": "cloudformation",
        "operation": operation,
        "parameters": parameters or {},
        "status": 200,
        "error": None,
        "answer": answer,
        **more,
    }


def recorded(name: str = "rackrate-Cluster-0MCNZ07UYNRK") -> Archive:
    """A record of each kind of answer; `name` differs from one deployment to another."""
    event = {"LogicalResourceId": "Cluster", "PhysicalResourceId": name}
    states = ("CREATE_COMPLETE", "CREATE_IN_PROGRESS")
    events = [{**event, "ResourceStatus": state} for state in states]
    refused = {"Code": "ValidationError", "Message": f"Stack {name} does not exist"}
    return Archive(
        {"parts": ["deploy"]},
        [
            line("DescribeStacks", {}, status=400, error=refused),
            line("DescribeStacks", {"Status": "CREATE_IN_PROGRESS", "Size": 1}),
            line("DescribeStacks", {"Status": "CREATE_COMPLETE", "Size": 2.5}),
            line("GetTemplate", {"Body": name, "Stages": ["Original"]}, parameters={"Name": name}),
            line("DescribeStackEvents", {"StackEvents": events}),
        ],
        [{"at": 1.0, "function": f"{name}-Plan", "call": "eks:DescribeCluster", "error": None}],
    )


def test_names_ids_and_numbers_are_no_difference() -> None:
    assert differences(recorded(), recorded("rackrate-Cluster-ZZTOP8899AAB")) == []


def test_an_intermediate_state_that_nobody_saw_is_no_difference() -> None:
    seldom = recorded()
    del seldom.calls[1]
    assert differences(recorded(), seldom) == []
    assert differences(seldom, recorded()) == []


def renamed(archive: Archive) -> None:
    archive.calls[3]["answer"]["Text"] = archive.calls[3]["answer"].pop("Body")


def retyped(archive: Archive) -> None:
    archive.calls[1]["answer"]["Size"] = "1"


def other_code(archive: Archive) -> None:
    archive.calls[0]["error"]["Code"] = "StackNotFound"


def other_order(archive: Archive) -> None:
    archive.calls[4]["answer"]["StackEvents"].reverse()


def other_end(archive: Archive) -> None:
    archive.calls[2]["answer"]["Status"] = "UPDATE_COMPLETE"


def missing_call(archive: Archive) -> None:
    del archive.calls[3]


def refused_function(archive: Archive) -> None:
    archive.functions[0]["error"] = "AccessDenied"


@pytest.mark.parametrize(
    ("mutate", "named"),
    [
        (renamed, "GetTemplate"),
        (retyped, "Size (string)"),
        (other_code, "StackNotFound"),
        (other_order, "CREATE_COMPLETE → CREATE_IN_PROGRESS"),
        (other_end, "UPDATE_COMPLETE"),
        (missing_call, "only the replay made this call"),
        (refused_function, "AccessDenied"),
    ],
)
def test_each_kind_of_difference_is_named(mutate: Callable[[Archive], None], named: str) -> None:
    changed = copy.deepcopy(recorded())
    mutate(changed)
    assert any(named in text for text in differences(changed, recorded()))


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    recorded().write(path, **{"report.md": "# Acceptance\n"})
    assert Archive.read(path) == recorded()


def test_another_file_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_text("PK", encoding="utf-8")
    with pytest.raises(ValueError, match="no archive of an acceptance"):
        Archive.read(path)
