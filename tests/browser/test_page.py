"""Every page in a browser: it is complete on all screens, accessible, and requests nothing."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import Browser

from rackrate_contract.comparison import Comparison
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
from tests.browser.opening import DESK, Opened, open_file
from tests.browser.runs import Run

NARROW, TABLET = 360, 768
#: The width of A4 in CSS pixels, without margins.
PAPER = 700
#: The least contrast in WCAG 2.2 for text (1.4.3) and for parts of figures (1.4.11).
TEXT_CONTRAST, SHAPE_CONTRAST = 4.5, 3.0
SMALLEST_TEXT = 9.0
#: Distance in CIELAB at which two colors are easy to tell apart. 2 is just noticeable.
TOLD_APART = 10.0
MOST_BYTES = 2_000_000
#: A color that looks different in each emulated color blindness.
GREEN = "rgb(0, 255, 0)"
#: Chromium's emulations of color vision. The last shows no colors.
VISIONS = ("none", "deuteranopia", "protanopia", "tritanopia", "achromatopsia")


# -- by itself


def test_nothing_is_printed_on_the_console_and_nothing_is_fetched(page: Opened) -> None:
    assert page.messages == []
    assert [each for each in page.requests if not each.startswith("data:")] == [page.file.as_uri()]


def test_the_page_is_small(page: Opened) -> None:
    assert page.file.stat().st_size < MOST_BYTES


def test_names_and_reasons_are_text_and_never_markup(page: Opened) -> None:
    assert page.tab.locator("img, iframe, object, embed, link, base, form").count() == 0
    assert page.tab.locator("script").count() == 1, "the page's own"
    handlers = """() => [...document.querySelectorAll('*')].flatMap(each => [...each.attributes])
        .filter(each => each.name.startsWith('on') || /^\\s*javascript:/i.test(each.value))
        .map(each => each.name)"""
    assert page.in_page(handlers) == []


def test_markup_that_slipped_in_runs_nothing_and_fetches_nothing(
    browser: Browser, page: Opened, tmp_path: Path
) -> None:
    """The page escapes all text. This is for the day when it forgets one."""
    slipped = (
        "<script>document.title = 'taken'</script>"
        "<img src=x onerror=\"document.title = 'taken'\">"
        '<img src="https://example.com/pixel"><base href="https://example.com/">'
        "<main"
    )
    changed = tmp_path / "report.html"
    changed.write_text(page.file.read_text("utf-8").replace("<main", slipped, 1), "utf-8")
    opened = open_file(browser, changed)
    try:
        assert opened.tab.title() == page.tab.title()
        # Chromium names a request that it did not send, and why.
        refused = [each for each in opened.messages if "Content Security Policy" in each]
        assert any("https://example.com/pixel" in each for each in refused)
        assert any("script" in each for each in refused)
        assert opened.in_page("() => document.baseURI").startswith("file:")
    finally:
        opened.tab.context.close()


def test_the_title_names_the_run_and_the_page_its_arms(page: Opened, run: Run) -> None:
    results = run.results
    named = results.comparison.run if isinstance(results, Comparison) else results.run.id
    assert named in page.tab.title(), "which every nasty name would change"
    text = page.tab.locator("body").text_content() or ""
    for arm in results.arms:
        assert arm.name in text


def test_what_is_referred_to_exists(page: Opened) -> None:
    assert page.in_page(DANGLING) == []


def test_links_lead_to_what_the_run_kept_and_to_the_web(page: Opened, run: Run) -> None:
    links = page.in_page(
        "() => [...document.querySelectorAll('a')].map(each => each.getAttribute('href'))"
    )
    keys = [trial.raw_key for trial in run.trials if trial.raw_key is not None]
    stored = (
        {f"../../{quote(key)}" for key in keys}
        if isinstance(run.results, Comparison)
        else {f"raw/{quote(key.rpartition('/')[2])}" for key in keys}
    )
    others = {link for link in links if not link.startswith("#")} - stored
    earlier = {run_id for each in run.results.regressions for run_id in each.baseline.runs}
    assert {link for link in others if link.startswith("../") and "/raw/" not in link} == {
        f"../{run_id}/report.html" for run_id in earlier
    }
    others = {link for link in others if not link.startswith("../")}
    files = {"results.json", "trials.csv", "plan.json", "schedule.json", "analysis.json"}
    assert {link for link in others if not link.startswith("https://")} <= files
    if run.raw:
        assert stored & set(links), "raw outputs are linked to"


# -- everything is there


def test_a_failure_is_reported_in_words_and_not_as_functions_report_it(
    page: Opened, run: Run
) -> None:
    text = page.tab.locator("body").text_content() or ""
    assert "stackTrace" not in text and "errorMessage" not in text
    failed = run.results.run.error
    if failed:
        assert failed in text
        assert "36 of 36 trials were lost" in text


def test_every_figure_is_drawn_and_named(page: Opened) -> None:
    figures = page.in_page(FIGURES)
    for figure in figures:
        assert figure["name"], figure
        assert figure["shapes"] > 2, figure
        assert figure["hidden"] or min(figure["width"], figure["height"]) > 15, figure
    names = [figure["name"] for figure in figures if not figure["hidden"]]
    assert len(set(names)) == len(names), "each figure says what it alone shows"
    unnamed = "() => document.querySelectorAll('svg:not([role=img]):not([aria-hidden])').length"
    assert page.in_page(unnamed) == 0


def test_every_test_has_its_figures(page: Opened, run: Run) -> None:
    figures = page.in_page(FIGURES)
    drawn = {(figure["kind"], test) for figure in figures for test in named_in(figure["name"], run)}
    assert expected_figures(run) - drawn == set()


def named_in(figure: str, run: Run) -> set[str]:
    """The tests that a figure shows."""
    names = [test["name"] for test in run.results.plan["tests"]]
    return {name for name in names if figure.startswith(name)}


def expected_figures(run: Run) -> set[tuple[str, str]]:
    """The kinds of figures that each test must have, derived from its measurements."""
    expected = set()
    for trial in run.trials:
        if trial.is_measured and not trial.warm_up:
            expected.add(("trials", trial.test))
            expected.add(("ecdf" if trial.samples else "series", trial.test))
    pairs = {(trial.arm, trial.nodes) for trial in run.trials}
    if len(pairs) > len(run.results.arms):
        expected |= {("matrix", test) for _, test in expected}
    expected |= {
        ("interval", verdict.test) for verdict in run.results.verdicts if verdict.shown_interval
    }
    return expected


# -- on any screen


@pytest.mark.parametrize("pixels", [NARROW, TABLET, DESK["width"]])
def test_the_page_never_scrolls_sideways(page: Opened, pixels: int) -> None:
    page.resize(pixels)
    page.unfold()
    assert page.in_page("() => document.documentElement.scrollWidth") <= pixels
    assert page.in_page(OUT_OF_SIGHT) == []


def test_text_in_figures_is_large_enough_to_read_on_a_phone(page: Opened) -> None:
    page.resize(NARROW)
    page.unfold()
    measured = page.in_page(SMALL_TEXT, SMALLEST_TEXT)
    assert measured["small"] == []
    drawn = page.tab.locator("figure").count()
    assert measured["texts"] >= drawn, "figures have text that is text"


def test_no_label_of_a_figure_lies_on_another(page: Opened) -> None:
    overlaps = """() => [...document.querySelectorAll('svg')].flatMap(figure => {
        const labels = [...figure.querySelectorAll('text')]
            .map(each => [each.textContent, each.getBoundingClientRect()]);
        return labels.flatMap(([one, a], place) => labels.slice(place + 1)
            .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
            .map(([other]) => `${one} | ${other}`));
    })"""
    assert page.in_page(overlaps) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_what_figures_are_made_of_stand_out(page: Opened, scheme: Any) -> None:
    page.show_as("screen", scheme)
    page.unfold()
    assert faint_text(page) == []
    contrasts = figure_contrasts(page)
    assert {what: c for what, c in contrasts["text"].items() if c < TEXT_CONTRAST} == {}
    assert {what: c for what, c in contrasts["shapes"].items() if c < SHAPE_CONTRAST} == {}
    assert (contrasts["paper"] < 0.2) == (scheme == "dark"), "the paper is dark in dark mode alone"


def test_the_colours_of_arms_are_others_in_dark_mode(page: Opened) -> None:
    light = page.in_page(LEGENDS)
    page.show_as("screen", "dark")
    dark = page.in_page(LEGENDS)
    assert light.keys() == dark.keys()
    assert all(light[arm]["colour"] != dark[arm]["colour"] for arm in light)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_arms_are_told_apart_by_colour_or_by_shape(page: Opened, run: Run, scheme: Any) -> None:
    page.show_as("screen", scheme)
    arms = page.in_page(LEGENDS)
    assert len(arms) == (len(run.results.arms) if run.raw else 0)
    for vision in VISIONS:
        seen = as_seen(page, [arm["colour"] for arm in arms.values()], vision)
        alike = [
            (vision, one, other)
            for (one, colour), (other, colour_of_other) in itertools.combinations(
                zip(arms, seen, strict=True), 2
            )
            if difference(colour, colour_of_other) < TOLD_APART
            and arms[one]["shape"] == arms[other]["shape"]
        ]
        assert alike == []


def test_two_arms_are_told_apart_by_colour_alone_unless_there_is_none(page: Opened) -> None:
    colours = [arm["colour"] for arm in page.in_page(LEGENDS).values()][:2]
    for vision in VISIONS[:-1] if colours else ():
        one, other = as_seen(page, colours, vision)
        assert difference(one, other) > TOLD_APART, vision


def as_seen(page: Opened, colours: list[str], vision: str) -> list[tuple[int, ...]]:
    """The colors as Chromium draws them with an emulated color vision."""
    swatches = "".join(
        f'<i style="position:fixed;z-index:9;top:0;left:{9 * n}px;width:9px;height:9px;'
        f'background:{colour}"></i>'
        for n, colour in enumerate([GREEN, *colours])
    )
    page.in_page(
        "markup => document.body.insertAdjacentHTML('beforeend', `<b id=swatches>${markup}</b>`)",
        swatches,
    )
    page.devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
    try:
        area = {"x": 0, "y": 0, "width": 9 * len(colours) + 9, "height": 9}
        picture = Image.open(io.BytesIO(page.tab.screenshot(clip=area))).convert("RGB")
    finally:
        page.devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
        page.in_page("() => document.getElementById('swatches').remove()")
    green, *seen = [picture.getpixel((9 * n + 4, 4)) for n in range(len(colours) + 1)]
    assert (green == (0, 255, 0)) == (vision == "none"), "it is emulated"
    return seen


# -- on paper


def test_on_paper_nothing_is_cut_off_and_text_is_black_on_white(page: Opened) -> None:
    page.show_as("print", "dark")
    page.resize(PAPER)
    assert page.in_page("() => document.documentElement.scrollWidth") <= PAPER
    assert page.in_page(OUT_OF_SIGHT) == []
    assert faint_text(page) == []
    contrasts = figure_contrasts(page)
    assert contrasts["paper"] > 0.9
    assert {what: c for what, c in contrasts["text"].items() if c < TEXT_CONTRAST} == {}


def test_on_paper_all_is_unfolded_but_the_data_that_figures_show(page: Opened) -> None:
    page.show_as("print", "light")
    hidden = """() => [...document.querySelectorAll('details:not(figure details) > :not(summary)')]
        .filter(each => !each.checkVisibility({contentVisibilityAuto: true}))
        .map(each => each.textContent.slice(0, 40))"""
    assert page.in_page(hidden) == []


# -- by keyboard


def test_everything_that_can_be_used_is_reached_by_tab_and_shows_it(page: Opened) -> None:
    expected = page.in_page(
        """() => { const found = [...document.querySelectorAll('a[href], summary, [tabindex]')]
            .filter(each => each.checkVisibility());
            found.forEach((each, n) => each.dataset.stop = n); return found.length }"""
    )
    stops = min(expected, 60)
    reached = []
    for _ in range(stops):
        page.tab.keyboard.press("Tab")
        reached.append(
            page.in_page(
                """() => { const it = document.activeElement, style = getComputedStyle(it);
                return { stop: Number(it.dataset.stop), tag: it.tagName, shown:
                    style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 } }"""
            )
        )
    assert [each["stop"] for each in reached] == list(range(stops)), "in the page's own order"
    assert [each for each in reached if not each["shown"]] == []


def test_details_open_and_close_by_enter(page: Opened) -> None:
    for folded in page.tab.locator("details").all()[:5]:
        summary = folded.locator("summary").first
        summary.focus()
        for expected in (True, False):
            page.tab.keyboard.press("Enter")
            assert folded.evaluate("each => each.open") is expected


# -- to a screen reader


def test_axe_core_finds_no_fault(page: Opened) -> None:
    page.unfold()
    assert faults(page) == []


def test_what_scrolls_has_a_name_and_is_reached_by_tab(page: Opened) -> None:
    assert page.in_page(UNREACHED_SCROLLERS) == []
