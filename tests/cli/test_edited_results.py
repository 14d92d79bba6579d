"""A file of the stack that somebody edited is read and printed, or refused in one sentence."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.errors import Refusal
from rackrate_cli.printing.answers import print_answers
from rackrate_cli.printing.campaign_estimate import print_campaign_estimate
from rackrate_cli.printing.estimate import print_estimate
from rackrate_cli.printing.junit import junit_xml
from rackrate_cli.printing.progress import describe_campaign
from rackrate_cli.printing.verdict import print_results, run_table
from rackrate_cli.reading.baselines import Baseline
from rackrate_cli.reading.campaigns import Campaign
from rackrate_cli.reading.documents import (
    read_campaign,
    read_campaign_estimate,
    read_comparison,
    read_estimates,
    read_results,
)
from rackrate_cli.reading.runs import Run
from rich.console import Console

from .campaigns import CAMPAIGN, campaign, planned
from .conftest import estimates, results, verdict

RUN = {"pk": "run#r-1", "run_id": "r-1", "status": "dry_run", "started_at": "2026-11-21T07:05:12Z"}
STARTED = {"pk": f"campaign#{CAMPAIGN}", "kind": "draws", "status": "dry_run"}


def console() -> Console:
    """A terminal that nobody looks at."""
    return Console(file=io.StringIO(), width=80)


def print_run(text: bytes) -> None:
    """Read and print as `rackrate show` and `rackrate export` do."""
    results_of_run = read_results(text, "r-1")
    print_results(console(), results_of_run)
    junit_xml("r-1", results_of_run, (), None)


def print_comparison(text: bytes) -> None:
    """Read and print as `rackrate compare` does."""
    print_results(console(), read_comparison(text, "c-1"))


def print_plan(text: bytes) -> None:
    """Read and print as `rackrate plan` does."""
    print_estimate(console(), Run.from_item(RUN), read_estimates(text, "r-1"))


def print_campaign(text: bytes) -> None:
    """Read and print as `rackrate campaign show` does."""
    print_answers(console(), read_campaign(text, CAMPAIGN))


def print_campaign_plan(text: bytes) -> None:
    """Read and print as `rackrate campaign run --dry-run` does."""
    estimated = read_campaign_estimate(text, CAMPAIGN)
    print_campaign_estimate(console(), Campaign.from_item(STARTED), estimated)


def compared() -> bytes:
    """A comparison.json."""
    document = json.loads(results("r-1")) | {"schema": "rackrate.comparison.v1"}
    document["run"]["status"] = "compared"
    document["comparison"] = {
        "run": "r-1",
        "with": "r-2",
        "with_runs": ["r-2"],
        "differences": [{"what": "kernel", "run": "6.1", "with": "6.2"}],
    }
    return json.dumps(document).encode()


def with_all() -> bytes:
    """A results.json in which every part of a verdict is there."""
    full = verdict(
        stack={"ci95": [1.3, 2.0], "ci_simultaneous": [1.2, 2.1], "verdict": "better"},
        partitions={"within": {"pairs": 2, "median": 1e9}, "across": {"pairs": 1, "median": None}},
        more_runs=2,
        more_blocks=3,
        reason="too few",
    )
    cause = {"cause": "lost", "count": 1, "where": ["a, x to y"]}
    trials = {"planned": 36, "measured": 35, "failed": 1, "causes": [cause]}
    earlier = verdict(baseline="main: run-1, run-2")
    return results("r-1", verdicts=[full], regressions=[earlier], trials=trials)


FILES: dict[str, tuple[bytes, Callable[[bytes], None]]] = {
    "results.json": (with_all(), print_run),
    "comparison.json": (compared(), print_comparison),
    "plan.json": (
        json.dumps({"estimates": estimates(), "placeholder_nodes": False}).encode(),
        print_plan,
    ),
    "campaign.json": (campaign(), print_campaign),
    "a campaign's plan.json": (planned(), print_campaign_plan),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inside:
            yield from _places(each, (*path, key))


OTHER = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just([1]),
    st.just({}),
    st.just({"a": "b"}),
)


def edited(document: Any, edits: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """A copy of a document with other values in some places."""
    document = copy.deepcopy(document)
    for (*way, last), value in edits:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            at = document
            for key in way:
                at = at[key]
            at[last] = copy.deepcopy(value)
    return document


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_is_read_and_printed(name: str) -> None:
    text, read = FILES[name]
    read(text)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_an_edited_file_is_read_and_printed_or_refused(name: str, data: st.DataObject) -> None:
    text, read = FILES[name]
    whole = json.loads(text)
    places = st.sampled_from(list(_places(whole)))
    edits = data.draw(st.lists(st.tuples(places, OTHER), min_size=1, max_size=3))
    with contextlib.suppress(Refusal):
        read(json.dumps(edited(whole, edits)).encode())


def test_an_interval_without_its_ends_is_refused() -> None:
    text, read = FILES["results.json"]
    with pytest.raises(Refusal):
        place = "verdicts", 0, "ci_simultaneous"
        read(json.dumps(edited(json.loads(text), [(place, [])])).encode())


@pytest.mark.parametrize("name", FILES)
@given(data=st.data(), more=st.binary(max_size=20))
def test_a_torn_file_is_read_or_refused(name: str, data: st.DataObject, more: bytes) -> None:
    text, read = FILES[name]
    at = data.draw(st.integers(0, len(text)))
    with contextlib.suppress(Refusal):
        read(text[:at] + more)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text", [b"{}", b"x", b"[]", b"7", b"null", b'{"schema": []}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_such_file_is_refused(name: str, text: bytes) -> None:
    with pytest.raises(Refusal):
        FILES[name][1](text)


#: What DynamoDB's table resource returns.
STORED = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
        st.text(max_size=8),
        st.binary(max_size=4),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def item_of(kind: type, more: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An item with values of any kind in the attributes that a record reads."""
    names = dict.fromkeys((*kind.__dataclass_fields__, "stopped", "changed"), STORED)
    return st.fixed_dictionaries({}, optional=names).map(lambda item: more | item)


@given(item_of(Run, RUN))
def test_any_item_of_a_run_can_be_listed(item: dict[str, Any]) -> None:
    run = Run.from_item(item)
    console().print(run_table([run]))
    json.dumps(run.as_document())


@given(item_of(Campaign, STARTED))
def test_any_item_of_a_campaign_can_be_shown(item: dict[str, Any]) -> None:
    record = Campaign.from_item(item)
    describe_campaign(record)
    assert record.pace
    assert record.spent is not None
    json.dumps(record.as_document())


@given(st.fixed_dictionaries({"name": STORED, "run_ids": STORED}, optional={"set_at": STORED}))
def test_any_item_of_a_baseline_is_read_or_has_no_runs(item: dict[str, Any]) -> None:
    assert all(isinstance(run_id, str) for run_id in Baseline.from_item(item).run_ids)


def test_numbers_of_items_are_decimals() -> None:
    item = {**RUN, "trials_planned": Decimal(24), "seconds": Decimal("61.5")}
    assert (Run.from_item(item).trials_planned, Run.from_item(item).seconds) == (24, 61.5)
