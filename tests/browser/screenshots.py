"""Take pictures of the pages for people to judge what automatic checks cannot.

Usage: .venv/bin/python -m tests.browser.screenshots DIRECTORY [PICTURE ...]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from scripts import chromium
from tests.browser.conftest import SHOWN


@dataclass(frozen=True)
class Picture:
    """A picture: its run or campaign, its width, and its settings."""

    shown: str
    width: int = 1280
    dark: bool = False
    printed: bool = False
    opened: bool = False
    vision: str = "none"


PICTURES = {
    "light": Picture("demo"),
    "dark": Picture("demo", dark=True),
    "narrow": Picture("demo", width=360),
    "narrow-dark": Picture("troubled", width=360, dark=True),
    "unfolded": Picture("demo", opened=True),
    "mesh": Picture("mesh"),
    "mesh-narrow": Picture("mesh", width=360),
    "failed-trials": Picture("troubled"),
    "no-trials": Picture("nothing"),
    "comparison": Picture("comparison"),
    "since": Picture("since"),
    "many-arms": Picture("many arms"),
    "hostile": Picture("hostile"),
    "print": Picture("demo", width=794, printed=True),
    "draws": Picture("draws"),
    "draws-dark": Picture("draws", dark=True),
    "draws-narrow": Picture("draws", width=360),
    "draws-print": Picture("draws", width=794, printed=True),
    "series": Picture("series"),
    "few-draws": Picture("few draws"),
    "sweep": Picture("sweep of nodes"),
    "sweep-narrow": Picture("sweep of nodes", width=360, dark=True),
    "versions": Picture("sweep of versions"),
    "pool": Picture("pool"),
    "colour-blind": Picture("demo", vision="deuteranopia"),
    "grey": Picture("demo", vision="achromatopsia"),
}


def take(browser: Browser, name: str, directory: Path) -> None:
    """Write a picture of the whole page, and for print also a PDF."""
    picture = PICTURES[name]
    page = directory / f"{name}.html"
    page.write_text(SHOWN[picture.shown]().page(), "utf-8")
    context = browser.new_context(
        viewport={"width": picture.width, "height": 900},
        color_scheme="dark" if picture.dark else "light",
        device_scale_factor=2 if picture.width < 600 else 1,
        offline=True,
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    if picture.opened:
        tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    if picture.printed:
        tab.pdf(path=directory / f"{name}.pdf", format="A4", print_background=False)
        tab.emulate_media(media="print")
    if picture.vision != "none":
        devtools: Any = context.new_cdp_session(tab)
        devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": picture.vision})
    tab.screenshot(path=directory / f"{name}.png", full_page=True)
    context.close()


def main() -> int:
    """Take the pictures. Returns the exit code."""
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(PICTURES):
        print(__doc__, "\nPictures:", ", ".join(PICTURES), file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with chromium.launched() as browser:
        for name in sys.argv[2:] or PICTURES:
            take(browser, name, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
