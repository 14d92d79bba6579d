"""The page of a run of hundreds of nodes.

benchmarks/opening.py judges the size of a page of 1000 nodes, and how quickly it opens.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser

from benchmarks import opening
from tests.browser.looking import DANGLING, FIGURES, SMALL_TEXT
from tests.browser.opening import Opened, open_file, patient_context
from tests.browser.test_page import NARROW, SMALLEST_TEXT

TESTS = ("tcp-1", "tcp-8", "rtt")
NODES = 400


@pytest.fixture(scope="module")
def large(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """The page, written from the store by the stage `report`."""
    file = tmp_path_factory.mktemp("large") / "report.html"
    _, page = opening.written(nodes=NODES, blocks=2)
    file.write_bytes(page)
    return open_file(browser, file)


def test_a_page_of_hundreds_of_nodes_is_whole_and_small(large: Opened) -> None:
    assert large.file.stat().st_size < opening.MOST_BYTES
    assert large.messages == []
    assert {each for each in large.requests if not each.startswith("data:")} == {
        large.file.as_uri()
    }
    figures = large.in_page(FIGURES)
    assert all(figure["name"] and figure["shapes"] > 2 for figure in figures)
    drawn = {(figure["kind"], re.split("[ :,]", figure["name"])[0]) for figure in figures}
    # Two blocks are too few for an interval.
    assert drawn >= {(kind, test) for kind in ("trials", "matrix") for test in TESTS}
    assert drawn >= {("series", "tcp-1"), ("series", "tcp-8"), ("ecdf", "rtt")}
    assert large.in_page(DANGLING) == []


def test_a_page_of_hundreds_of_nodes_fits_a_phone(large: Opened) -> None:
    large.resize(NARROW)
    assert large.in_page("() => document.documentElement.scrollWidth") <= NARROW
    assert large.in_page(SMALL_TEXT, SMALLEST_TEXT)["small"] == []


def test_every_moment_of_an_opening_is_measured(large: Opened, browser: Browser) -> None:
    context = patient_context(browser, offline=True)
    tab = context.new_page()
    tab.goto(large.file.as_uri(), wait_until="commit")
    times = tab.evaluate(opening.TIMES)
    context.close()
    assert 0 < times["first paint"] <= times["largest paint"] <= times[opening.SHOWN]
    assert 0 < times["load event"] <= times[opening.SHOWN]
