"""The documentation's site in a browser: the search works, and all content is the site's own."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.opening import DESK, patient_context
from tests.docs.test_site import built

pytestmark = pytest.mark.rest

PHONE = {"width": 390, "height": 844}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the site, because browsers do not start the search's worker from a file."""
    directory = built(tmp_path_factory.mktemp("documentation"))
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = patient_context(browser, viewport=DESK)
    yield context.new_page()
    context.close()


def test_the_search_finds_an_error_by_its_name(tab: Page, address: str) -> None:
    messages: list[str] = []
    requested: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto(f"{address}index.html")
    tab.click("input[name=query]")
    tab.keyboard.type("NodesUnavailable")
    tab.locator(".md-search-result__item h2", has_text="NodesUnavailable").first.click()
    tab.wait_for_url("**/troubleshooting.html*")
    assert messages == []
    assert {url for url in requested if not url.startswith(address)} == set()


@pytest.mark.parametrize("name", ["index", "plan", "reading-a-verdict", "security", "architecture"])
def test_a_page_fits_a_phone_and_only_its_tables_scroll(tab: Page, address: str, name: str) -> None:
    tab.set_viewport_size(PHONE)
    tab.goto(f"{address}{name}.html")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_sample_page_opens_from_its_link(tab: Page, address: str) -> None:
    messages: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.goto(f"{address}samples.html")
    tab.locator("article a[href='samples/run.html']").click()
    tab.wait_for_url("**/samples/run.html")
    assert tab.locator("figure .save").count() > 2
    assert tab.locator(".lab").is_visible()
    assert messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_follows_the_system_into_the_dark(tab: Page, address: str, scheme: str) -> None:
    tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    tab.goto(f"{address}architecture.html")
    red, green, blue = tab.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert (red + green + blue < 300) == (scheme == "dark")
