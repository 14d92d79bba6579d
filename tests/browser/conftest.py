"""One browser for all tests, and each run's page opened once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page

from tests.browser import chromium
from tests.browser.runs import RUNS, Run

DESK = {"width": 1280, "height": 900}


@dataclass
class Opened:
    """A run's page in a tab, and what the browser said and asked for meanwhile."""

    run: Run
    tab: Page
    file: Path
    devtools: CDPSession
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def in_page(self, script: str, argument: Any = None) -> Any:
        """The value of a JavaScript function."""
        return self.tab.evaluate(script, argument)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium.launched() as launched:
        yield launched


def opened(browser: Browser, run: Run, file: Path) -> Opened:
    """Open a run's page from a file, offline."""
    file.write_text(run.page(), "utf-8")
    context = browser.new_context(viewport=DESK, color_scheme="light", offline=True)
    tab = context.new_page()
    page = Opened(run, tab, file, context.new_cdp_session(tab))
    tab.on("console", lambda message: page.messages.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: page.messages.append(f"exception: {error}"))
    tab.on("request", lambda request: page.requests.append(request.url))
    # What the browser itself has to say of a page is in no event of the console.
    page.devtools.on("Log.entryAdded", lambda told: page.messages.append(told["entry"]["text"]))
    page.devtools.send("Log.enable")
    tab.goto(file.as_uri(), wait_until="load")
    return page


@pytest.fixture(scope="module", params=RUNS)
def a_page(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """The page of each run in turn; `page` gives it to a test as it was when it was opened."""
    run = RUNS[request.param]()
    page = opened(browser, run, tmp_path_factory.mktemp("page") / "report.html")
    yield page
    page.tab.context.close()


@pytest.fixture
def page(a_page: Opened) -> Opened:
    """Each run's page, on a desk, light, its details closed."""
    a_page.tab.set_viewport_size(DESK)  # type: ignore[arg-type]
    a_page.tab.emulate_media(media="screen", color_scheme="light")
    a_page.in_page(
        """() => { document.activeElement?.blur(); scrollTo(0, 0);
            document.querySelectorAll('details').forEach(each => each.open = false) }"""
    )
    return a_page
