"""What `make test-faults` says of the faults that it tried."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.docs.blocks import ROOT
from tests.faults.__main__ import last_line, passed
from tests.faults.catalogue import CATALOGUE, ELSEWHERE
from tests.faults.trying import Tried, is_readable

GOOD = Tried(CATALOGUE[0], 24, 24, 0, (), 40.0, "", ())


def test_nothing_lost_left_or_wrong_passes() -> None:
    assert passed([GOOD, GOOD])
    assert last_line([GOOD, GOOD]) == "faults: 2 tried, 0 trials lost, 0 objects left"


@pytest.mark.parametrize(
    "bad", [{"lost": 2}, {"left": ("pod one",)}, {"wrong": ("exit code 1",)}], ids=str
)
def test_one_fault_that_lost_left_or_reported_something_else_fails_all(
    bad: dict[str, object],
) -> None:
    assert not passed([GOOD, dataclasses.replace(GOOD, **bad)])  # type: ignore[arg-type]


def test_the_last_line_counts_over_all_faults() -> None:
    bad = dataclasses.replace(GOOD, lost=3, left=("pod one", "lease of two"))
    assert last_line([bad, GOOD, bad]) == "faults: 3 tried, 6 trials lost, 4 objects left"


def test_each_fault_has_a_name_of_its_own_and_there_are_thirty() -> None:
    assert len({case.name for case in CATALOGUE}) == len(CATALOGUE) >= 30


def test_a_sentence_may_name_one_request_and_hold_no_document() -> None:
    request = "563e5211-a9b4-49c7-950f-db77e124108d"
    assert is_readable(f"node ip-10-0-1-7 is gone (request {request} in the logs)")
    assert not is_readable(f"{request} and {request}")
    assert not is_readable('{"errorMessage":"the run is gone"}')


def test_what_is_tried_elsewhere_names_a_test_that_there_is() -> None:
    named = [path for why in ELSEWHERE.values() for path in re.findall(r"tests/[\w/]+\.py", why)]
    assert len(named) == len(ELSEWHERE)
    assert all((ROOT / path).is_file() for path in named)
