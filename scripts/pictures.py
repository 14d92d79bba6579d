"""Take the pictures of the README: the top of the page of a run or a campaign, light and dark.

Usage: .venv/bin/python -m scripts.pictures [RESULTS]

RESULTS is a directory with a report.html. The default is out/latest, which `make demo` writes. The
pictures are page-light.png and page-dark.png, of a campaign campaign-light.png and -dark.png.
Exit codes: 0 the pictures are written, 2 there is no page or no browser.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, FloatRect

from lab.errors import LabError
from scripts import chromium

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "out" / "latest"
PICTURES = ROOT / "docs" / "pictures"

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
#: CSS pixels. The page's table of verdicts keeps its columns from a width of 993. Longer pages are
#: cut at the maximum height.
WIDTH, MOST_HEIGHT = 1024, 1400
#: The section where a picture ends.
END = "#meaning"
#: The margin below, in CSS pixels.
MARGIN = 16
#: Pixels for each CSS pixel, so that text is sharp on dense screens.
DENSITY = 1.5
COLOURS = 64


def pictures(browser: Browser, page: Path) -> Mapping[Scheme, bytes]:
    """Take PNGs of a page from its top to the end of what it means."""
    return {scheme: _picture(browser, page, scheme) for scheme in SCHEMES}


def _picture(browser: Browser, page: Path, scheme: Scheme) -> bytes:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": MOST_HEIGHT},
        color_scheme=scheme,
        device_scale_factor=DENSITY,
        offline=True,
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    end = tab.evaluate(f"document.querySelector('{END}').getBoundingClientRect().bottom")
    height = min(end + MARGIN, MOST_HEIGHT)
    taken = tab.screenshot(clip=FloatRect(x=0, y=0, width=WIDTH, height=height))
    context.close()
    return _with_palette(taken)


def _name(page: Path) -> str:
    """The name of the pictures of a page."""
    is_run = 'id="verdicts"' in page.read_text("utf-8")
    return "page" if is_run else "campaign"


def _with_palette(png: bytes) -> bytes:
    """Reduce a picture's bytes with a palette, because a page has few colors."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    written = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()


def main() -> int:
    """Write the pictures. Returns the exit code."""
    page = Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS).resolve() / "report.html"
    if not page.is_file():
        print(f"There is no {page}: run `make demo` first.", file=sys.stderr)
        return 2
    try:
        with chromium.launched() as browser:
            taken = pictures(browser, page)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    for scheme, png in taken.items():
        file = PICTURES / f"{_name(page)}-{scheme}.png"
        file.write_bytes(png)
        print(f"{file.relative_to(ROOT)}: {len(png) / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
