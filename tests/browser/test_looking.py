"""The checks of pages find faults. A check that finds nothing would pass all pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.looking import (
    DANGLING,
    FIGURES,
    LEGENDS,
    OUT_OF_SIGHT,
    SMALL_TEXT,
    UNREACHED_SCROLLERS,
    difference,
    faint_text,
    faults,
    figure_contrasts,
)
from tests.browser.opening import Opened, open_file

Show = Callable[[str], Opened]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Return a function that opens a page with this body."""
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
def test_what_is_printed_and_fetched_is_noticed(show: Show, body: str) -> None:
    page = show(body)
    page.tab.wait_for_function("document.readyState === 'complete'")
    assert page.messages or len(page.requests) > 1


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("<main><h1>a</h1><h3>b</h3></main>", "heading-order"),
        ("<p id=x>a</p><p id=x>b</p>", "duplicate-id"),
        ("<a href=one>raw</a> <a href=other>raw</a>", "identical-links-same-purpose"),
        ("<p aria-describedby=gone>a</p>", "aria-valid-attr-value"),
        (f"<table>{'<tr><td>1<td>2<td>3<td>4' * 4}</table>", "td-has-header"),
    ],
)
def test_axe_core_runs_with_the_rules_that_are_asked_for(show: Show, body: str, rule: str) -> None:
    assert rule in {fault.partition(":")[0] for fault in faults(show(body))}


def test_text_that_hardly_stands_out(show: Show) -> None:
    dark = "<p style='color:#555'>dark</p>"
    page = show(f"{dark * 3}<p style='color:#999'>grey</p>{dark}")
    assert faint_text(page) == ['color-contrast: <p style="color:#999">grey</p>']
    assert page.tab.locator("p").all_text_contents() == ["dark", "dark", "dark", "grey", "dark"]


def test_text_of_a_usual_colour_that_hardly_stands_out_where_it_is(show: Show) -> None:
    cell = "<td style='color:#555'>{}</td>"
    rows = [f"<tr>{cell.format('clear')}</tr>"] * 3
    rows.append(f"<tr style='background:#777'>{cell.format('faint')}</tr>")
    page = show(f"<table>{''.join(rows)}</table>")
    assert faint_text(page) == ['color-contrast: <td style="color:#555">faint</td>']


def test_references_to_ids_that_are_nowhere(show: Show) -> None:
    page = show("<a id=x href='#gone'>a</a><a href='#x'>b</a><p style='fill:url(#g)'>")
    assert page.in_page(DANGLING) == ["gone", "g"]


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


def test_text_and_shapes_of_figures_that_hardly_stand_out(show: Show) -> None:
    page = show(
        "<style>:root { --arm-0: #eee }</style>"
        "<svg aria-label=f width=99 height=99><rect width=99 height=99 fill='#222'/>"
        "<text x=9 y=50 fill='#333'>dark</text><path d='M0 0h9v9z' style='fill:var(--arm-0)'/>"
    )
    contrasts = figure_contrasts(page)
    assert contrasts["text"]["dark in f"] == pytest.approx(1.26, abs=0.02)
    assert contrasts["shapes"]["--arm-0"] == pytest.approx(1.16, abs=0.02)
    assert contrasts["paper"] == pytest.approx(1)


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


def test_regions_that_scroll_without_a_name(show: Show) -> None:
    page = show(
        "<div style='overflow-x:auto' tabindex=0 aria-label=a>a</div>"
        "<div style='overflow-x:auto' tabindex=0>no name</div>"
        "<div style='overflow-x:auto' aria-label=a>no stop</div>"
    )
    assert page.in_page(UNREACHED_SCROLLERS) == ["no name", "no stop"]


def test_colours_are_as_far_apart_as_they_look() -> None:
    assert difference((0, 0, 0), (255, 255, 255)) == pytest.approx(100, abs=0.1)
    assert difference((198, 82, 0), (198, 82, 0)) == 0
    assert difference((120, 120, 120), (124, 120, 120)) < 3
