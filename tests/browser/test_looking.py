"""What looks for faults in a page finds them: a check that sees nothing would pass every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.looking import (
    ACCESSIBLE,
    CONTRASTS,
    FIGURES,
    LEGENDS,
    OUT_OF_SIGHT,
    REFERENCES,
    SMALL_TEXT,
    difference,
)
from tests.browser.opening import Opened, open_file

Show = Callable[[str], Opened]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page of this body."""
    pages = []

    def open_body(body: str) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(f"<!doctype html><body>{body}</body>", "utf-8")
        pages.append(open_file(browser, file))
        return pages[-1]

    yield open_body
    for page in pages:
        page.tab.context.close()


@pytest.mark.parametrize(
    "body",
    [
        "<script>console.warn('said')</script>",
        "<script>nowhere()</script>",
        "<link rel=stylesheet href=https://example.test/style.css>",
    ],
)
def test_what_is_said_and_fetched_is_noticed(show: Show, body: str) -> None:
    page = show(body)
    page.tab.wait_for_function("document.readyState === 'complete'")
    assert page.messages or len(page.requests) > 1


def test_ids_that_are_twice_or_nowhere(show: Show) -> None:
    page = show("<a id=x href='#gone'>a</a><p id=x aria-labelledby=also-gone style='fill:url(#g)'>")
    assert page.in_page(REFERENCES) == {"twice": ["x"], "dangling": ["gone", "also-gone", "g"]}


def test_what_sticks_out_unless_it_scrolls(show: Show) -> None:
    wide = "<div class={} style='width:3000px'>wide</div>"
    page = show(wide.format("out") + f"<div style='overflow-x:auto'>{wide.format('in')}</div>")
    assert page.in_page(OUT_OF_SIGHT) == ["DIV.out"]


def test_text_that_is_small_once_its_figure_is_scaled(show: Show) -> None:
    text = "<text y=20 style='font-size:{}px'>{}</text>"
    page = show(
        f"<svg viewBox='0 0 200 100' width=100>{text.format(20, 'large')}{text.format(12, 'small')}"
    )
    assert page.in_page(SMALL_TEXT, 9) == {"texts": 2, "small": ["6.0: small"]}


def test_text_and_shapes_that_hardly_stand_out(show: Show) -> None:
    page = show(
        "<style>:root { --arm-0: #eee }</style><p style='color:#999'>grey</p>"
        "<svg aria-label=f width=99 height=99><rect width=99 height=99 fill='#222'/>"
        "<text x=9 y=50 fill='#333'>dark</text><path d='M0 0h9v9z' style='fill:var(--arm-0)'/>"
    )
    found = page.in_page(CONTRASTS)
    assert sorted(found["text"].values()) == pytest.approx([1.26, 2.85], abs=0.02)
    assert found["shapes"]["--arm-0"] == pytest.approx(1.16, abs=0.02)
    assert found["paper"] == pytest.approx(1)


def test_figures_are_listed_with_their_names_and_kinds(show: Show) -> None:
    page = show(
        "<figure data-figure=trials><svg role=img aria-labelledby='a b' width=90 height=50>"
        "<title id=a>one</title><desc id=b>two</desc><path d='M0 0'/></svg></figure>"
    )
    (figure,) = page.in_page(FIGURES)
    assert (figure["name"], figure["kind"], figure["shapes"]) == ("one two", "trials", 1)
    assert (figure["width"], figure["height"], figure["hidden"]) == (90, 50, False)


def test_arms_have_the_colour_and_the_shape_of_their_legend(show: Show) -> None:
    symbols = "".join(
        f"<symbol id=key-{n}><path d='M0 0h{n}' style='fill:rgb({n}, 0, 0)'/></symbol>"
        for n in (1, 2)
    )
    uses = "".join(f"<svg class=key><use href='#key-{n}'/></svg>" for n in (1, 2))
    arms = show(f"<svg>{symbols}</svg><figure>{uses}</figure>").in_page(LEGENDS)
    assert [arm["colour"] for arm in arms.values()] == ["rgb(1, 0, 0)", "rgb(2, 0, 0)"]
    assert len({arm["shape"] for arm in arms.values()}) == 2


def test_tables_without_headers_and_regions_without_names(show: Show) -> None:
    page = show("<table><tr><td>1</table><div style='overflow-x:auto'>scrolls</div>")
    assert len(page.in_page(ACCESSIBLE)) == 2


def test_colours_are_as_far_apart_as_they_look() -> None:
    assert difference((0, 0, 0), (255, 255, 255)) == pytest.approx(100, abs=0.1)
    assert difference((198, 82, 0), (198, 82, 0)) == 0
    assert difference((120, 120, 120), (124, 120, 120)) < 3
