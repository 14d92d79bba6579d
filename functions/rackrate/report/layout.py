"""The layout that all pages share: head, links to the parts, main part and footer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from rackrate.report import frame
from rackrate.report.script import HASH, SCRIPT
from rackrate.report.style import STYLE

#: The page needs one script and nothing from elsewhere, so a browser allows nothing else, even if
#: a name or a tool's output became markup. Styles and data: images are in the page itself.
_POLICY = (
    f"default-src 'none'; script-src '{HASH}'; style-src 'unsafe-inline'; img-src data:;"
    " base-uri 'none'; form-action 'none'"
)


class Part(NamedTuple):
    """A section of a page, for the links at its top."""

    anchor: str
    """The id of the section."""
    name: str


def page(
    page: frame.Page,
    *,
    title: str,
    keys: int,
    header: str,
    parts: Sequence[Part],
    body: Iterable[str],
    files: str,
) -> str:
    """A whole page as HTML, which needs no other file.

    Args:
        page: the page's data, for the scale of a lab's network. A line that stays at the window's
            top tells it, so that no figure is seen without it.
        title: its title, as text.
        keys: the number of arms' keys that its legends and tables use.
        header: what stands above the links to its parts, as markup.
        parts: its sections, to link to.
        body: its sections, as markup; empty ones are left out.
        files: which files hold the same, as markup that follows a semicolon.
    """
    links = "".join(f'<li><a href="#{part.anchor}">{escape(part.name)}</a></li>' for part in parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the conclusion</a>'
        f"{frame.keys(keys)}{_lab(page)}"
        f'<header>{header}</header><nav aria-label="Parts of this page"><ul>{links}</ul></nav>'
        f'<main id="main">{"".join(body)}</main>'
        "<footer><p>rackrate: what a placement group buys. This page needs no network;"
        f" {files}</p></footer><script>{SCRIPT}</script></body></html>\n"
    )


def _lab(page: frame.Page) -> str:
    """The warning on a page of a lab's run; empty on AWS."""
    if page.scale is None:
        return ""
    return (
        f'<aside class="lab" aria-label="Warning"><strong>Lab run.</strong> Network scaled by'
        f" {page.scale:g}: figures are not EC2's.</aside>"
    )
