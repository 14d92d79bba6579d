"""Fixtures: one browser for all tests, and one tab for each page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from playwright.sync_api import Browser

from scripts import chromium
from tests.browser.campaigns import CAMPAIGNS, Campaign
from tests.browser.opening import DESK, Opened, open_file
from tests.browser.runs import RUNS, Run

#: Everything that has a page.
SHOWN: Mapping[str, Callable[[], Run | Campaign]] = {**RUNS, **CAMPAIGNS}
#: The run that is compared with a baseline is a demo too. The hostile pages have all that the other
#: two have, in words that are harder to show.
IN_OTHERS = {"demo", "troubled", "few draws"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a run gets each of them, and one that only takes a page gets all pages."""
    names = metafunc.fixturenames
    if "shown" in names:
        chosen = RUNS if "run" in names else CAMPAIGNS if "campaign" in names else SHOWN
        tested = [name for name in chosen if name not in IN_OTHERS]
        metafunc.parametrize("shown", tested, indirect=True, scope="module")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium.launched() as launched:
        yield launched


@pytest.fixture(scope="module")
def shown(request: pytest.FixtureRequest) -> Run | Campaign:
    """Each run, comparison and campaign in turn."""
    return SHOWN[request.param]()


@pytest.fixture(scope="module")
def run(shown: Run | Campaign) -> Run:
    """Each run in turn."""
    assert isinstance(shown, Run)
    return shown


@pytest.fixture(scope="module")
def campaign(shown: Run | Campaign) -> Campaign:
    """Each campaign in turn."""
    assert isinstance(shown, Campaign)
    return shown


@pytest.fixture(scope="module")
def opened(
    shown: Run | Campaign, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(shown.page(), "utf-8")
    page = open_file(browser, file)
    yield page
    page.tab.context.close()


@pytest.fixture
def page(opened: Opened) -> Opened:
    """The page, in a desktop window and light colors, with its details closed."""
    opened.in_page("() => { document.activeElement?.blur(); scrollTo(0, 0) }")
    opened.unfold(opened=False)
    opened.resize(DESK["width"])
    opened.show_as("screen", "light")
    return opened
