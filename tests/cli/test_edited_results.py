"""A results file that somebody edited is read, or refused in one sentence."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.errors import Refusal
from rackrate_cli.results import Results

from .conftest import results

WHOLE = json.loads(results("r-1"))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inside:
            yield from _places(each, (*path, key))


PLACES = list(_places(WHOLE))
OTHER = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just([1]),
    st.just({}),
)


@given(st.lists(st.tuples(st.sampled_from(PLACES), OTHER), min_size=1, max_size=3))
def test_an_edited_file_is_read_or_refused(edits: list[tuple[tuple[Any, ...], Any]]) -> None:
    document = copy.deepcopy(WHOLE)
    for (*way, last), value in edits:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            at = document
            for key in way:
                at = at[key]
            at[last] = value
    with contextlib.suppress(Refusal):
        Results.read(json.dumps(document).encode(), "r-1")


@given(st.integers(0, len(results("r-1"))), st.binary(max_size=20))
def test_a_torn_file_is_read_or_refused(at: int, more: bytes) -> None:
    with contextlib.suppress(Refusal):
        Results.read(results("r-1")[:at] + more, "r-1")


@pytest.mark.parametrize("text", [b"[]", b"7", b"null", b'{"schema": []}', b"[" * 100_000, b"\xff"])
def test_what_is_no_results_file_is_refused(text: bytes) -> None:
    with pytest.raises(Refusal):
        Results.read(text, "r-1")
