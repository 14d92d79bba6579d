"""Fixtures: one browser for all tests, and one tab for each run's page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from scripts import chromium
from tests.browser.opening import DESK, Opened, open_file
from tests.browser.runs import RUNS, Run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium.launched() as launched:
        yield launched


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    """Each run in turn."""
    return RUNS[request.param]()


@pytest.fixture(scope="module")
def opened(
    run: Run, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(run.page(), "utf-8")
    page = open_file(browser, file)
    yield page
    page.tab.context.close()


@pytest.fixture
def page(opened: Opened) -> Opened:
    """The run's page, in a desktop window and light colors, with its details closed."""
    opened.in_page("() => { document.activeElement?.blur(); scrollTo(0, 0) }")
    opened.unfold(opened=False)
    opened.resize(DESK["width"])
    opened.show_as("screen", "light")
    return opened
