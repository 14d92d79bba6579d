"""Open a page in a tab, offline, and record the browser's messages and requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from tests.waiting import HUNG_SECONDS

Medium = Literal["screen", "print"]
Scheme = Literal["light", "dark"]
DESK = {"width": 1280, "height": 900}


@dataclass
class Opened:
    """A file in a tab.

    Attributes:
        messages: the messages of the page and of the browser on the console.
        requests: the requested addresses, including the page's own.
    """

    file: Path
    tab: Page
    devtools: CDPSession
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _shown_as: tuple[Medium, Scheme] | None = None

    def in_page(self, script: str, argument: Any = None) -> Any:
        """Call a JavaScript function in the page. Returns its value."""
        return self.tab.evaluate(script, argument)

    def resize(self, width: int, height: int = DESK["height"]) -> None:
        """Resize the window. Waits for the page, which learns of it later than the browser."""
        if self.tab.viewport_size == {"width": width, "height": height}:
            return
        self.tab.set_viewport_size({"width": width, "height": height})
        self.tab.wait_for_function("wide => innerWidth === wide", arg=width)
        self._wait_for_frames()

    def show_as(self, media: Medium, scheme: Scheme) -> None:
        """Show the page on a screen or on paper, light or dark. Waits until the page reacts."""
        if self._shown_as == (media, scheme):
            return
        self.tab.emulate_media(media=media, color_scheme=scheme)
        self.tab.wait_for_function(
            "wanted => wanted.every(each => matchMedia(each).matches)",
            arg=[media, f"(prefers-color-scheme: {scheme})"],
        )
        self._shown_as = (media, scheme)
        self._wait_for_frames()

    def unfold(self, *, opened: bool = True) -> None:
        """Open all details, or close them."""
        script = """open => { const others = [...document.querySelectorAll('details')]
          .filter(each => each.open !== open);
          others.forEach(each => each.open = open);
          return others.length }"""
        if self.in_page(script, opened):
            self._wait_for_frames()

    def _wait_for_frames(self) -> None:
        """Wait until the page is drawn again. Until then the old state is visible."""
        two = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.in_page(f"() => new Promise(done => {two})")


def patient_context(browser: Browser, **options: Any) -> BrowserContext:
    """A browser context whose actions end only when they hang; see `Browser.new_context`."""
    context = browser.new_context(**options)
    context.set_default_timeout(HUNG_SECONDS * 1000)
    return context


def open_file(browser: Browser, file: Path) -> Opened:
    """Open a page from a file, in its own browser context."""
    context = patient_context(browser, viewport=DESK, color_scheme="light", offline=True)
    tab = context.new_page()
    page = Opened(file, tab, context.new_cdp_session(tab))
    tab.on("console", lambda message: page.messages.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: page.messages.append(f"exception: {error}"))
    tab.on("request", lambda request: page.requests.append(request.url))
    # Messages of the browser itself come without an event of the console.
    page.devtools.on("Log.entryAdded", lambda event: page.messages.append(event["entry"]["text"]))
    page.devtools.send("Log.enable")
    tab.goto(file.as_uri(), wait_until="load")
    return page
