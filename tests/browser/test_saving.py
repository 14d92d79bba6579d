"""Figures saved from their menus: an SVG that stands alone, and a CSV with the exact values."""

from __future__ import annotations

import csv
import io
import statistics
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator

from tests.browser.campaigns import Campaign
from tests.browser.conftest import SHOWN
from tests.browser.opening import Opened, open_file
from tests.browser.runs import Run

#: Together these pages have every kind of figure, a lab's run, failed trials, and hostile names.
PAGES = ("mesh", "hostile", "few draws", "sweep of nodes")
HREF = "{http://www.w3.org/1999/xlink}href"
#: The color of the first arm in light mode.
FIRST_ARM = (0xC6, 0x52, 0x00)

Rows = list[dict[str, str]]


@pytest.fixture(scope="module", params=PAGES)
def subject(request: pytest.FixtureRequest) -> Run | Campaign:
    return SHOWN[request.param]()


@pytest.fixture(scope="module")
def opened(
    subject: Run | Campaign, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """The page in dark mode, because what is saved has to be light."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(subject.page(), "utf-8")
    page = open_file(browser, file)
    page.show_as("screen", "dark")
    yield page
    page.tab.context.close()


def first_of_each_kind(page: Opened) -> list[Locator]:
    by_kind = {}
    for figure in page.tab.locator("figure").all():
        by_kind.setdefault(figure.get_attribute("data-figure"), figure)
    assert by_kind
    return [*by_kind.values()]


def saved(page: Opened, figure: Locator, kind: str) -> Path:
    """Save a figure from its menu, with the keyboard alone."""
    menu = figure.locator("details.save")
    menu.locator("summary").focus()
    page.tab.keyboard.press("Enter")
    for _ in range(1 if kind == "SVG" else 2):
        page.tab.keyboard.press("Tab")
    with page.tab.expect_download() as download:
        page.tab.keyboard.press("Enter")
    menu.locator("summary").click()
    file = page.file.parent / download.value.suggested_filename
    assert file.suffix == f".{kind.lower()}"
    download.value.save_as(file)
    return file


def test_a_saved_svg_stands_alone_and_is_light(
    subject: Run | Campaign, opened: Opened, browser: Browser
) -> None:
    for figure in first_of_each_kind(opened):
        file = saved(opened, figure, "SVG")
        root = ET.fromstring(file.read_text("utf-8"))
        text = " ".join(" ".join(root.itertext()).split())
        for label in figure.locator(".legend li").all_text_contents():
            assert " ".join(label.split()) in text
        assert opened.tab.title() in text
        assert ("Lab run" in text) == (opened.tab.locator(".lab").count() > 0)
        written = file.read_text("utf-8")
        assert "var(" not in written and "<script" not in written
        ids = {each.get("id") for each in root.iter()}
        targets = [each.attrib[HREF] for each in root.iter() if HREF in each.attrib]
        assert all(each.startswith("data:image/") or each[1:] in ids for each in targets)
        alone = open_file(browser, file)
        try:
            alone.show_as("screen", "dark")
            size = int(root.attrib["width"]), int(root.attrib["height"])
            area = {"x": 0, "y": 0, "width": size[0], "height": size[1]}
            picture = Image.open(io.BytesIO(alone.tab.screenshot(clip=area))).convert("RGB")
            assert alone.messages == []
            outside = alone.in_page(OUTSIDE, list(size))
        finally:
            alone.tab.context.close()
        assert outside == []
        assert picture.getpixel((2, 2)) == (255, 255, 255)
        colours = {colour for _, colour in picture.getcolors(2**24) or ()}
        assert len(colours) > 4
        if figure.locator(".legend li").count():
            assert FIRST_ARM in colours


#: Texts that extend past the picture.
OUTSIDE = """([width, height]) => [...document.querySelectorAll('text')]
  .filter(each => { const box = each.getBoundingClientRect();
    return box.left < 0 || box.top < 0 || box.right > width || box.bottom > height })
  .map(each => each.textContent)"""


def test_a_saved_csv_has_the_values_of_the_results(subject: Run | Campaign, opened: Opened) -> None:
    for figure in first_of_each_kind(opened):
        file = saved(opened, figure, "CSV")
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        kind = figure.get_attribute("data-figure") or ""
        CHECKS[kind](subject, rows)
        scale = (
            subject.results.campaign.lab_scale
            if isinstance(subject, Campaign)
            else subject.results.run.lab_scale
        )
        assert {row.get("lab_scale") for row in rows} == {scale and str(scale)}


def same(rows: Rows, expected: list[tuple[object, ...]], *names: str) -> None:
    """Check that the rows have these values in any order, numbers to the last digit."""
    read = [tuple(row[name] for name in names) for row in rows]
    assert sorted(map(numbered, read)) == sorted(map(numbered, expected))


def numbered(values: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(repr(number(value)) for value in values)


def number(value: object) -> object:
    if value is None:
        return ""
    try:
        return float(value)  # type: ignore[arg-type]
    except ValueError:
        return value


def check_trials(run: Run, rows: Rows) -> None:
    test = run.results.plan["tests"][0]["name"]
    expected = [
        (
            t.block,
            t.arm,
            t.client_name,
            t.server_name,
            t.status,
            t.reason,
            t.values.get("throughput"),
        )
        for t in run.trials
        if t.test == test and not t.warm_up
    ]
    names = ("block", "arm", "client", "server", "status", "reason", "throughput_bits_per_second")
    same(rows, expected, *names)


def check_interval(run: Run, rows: Rows) -> None:
    verdict = next(each for each in run.results.verdicts if each.test == rows[0]["test"])
    expected = (verdict.arm, verdict.ratio, *(verdict.ci95 or ()), *(verdict.ci_simultaneous or ()))
    adjusted = ("ci_simultaneous_low", "ci_simultaneous_high") if verdict.ci_simultaneous else ()
    same(rows, [expected], "arm", "ratio", "ci95_low", "ci95_high", *adjusted)


def check_series(run: Run, rows: Rows) -> None:
    """The trials that the figure draws, whole."""
    test = run.results.plan["tests"][0]["name"]
    drawn = {(row["block"], row["client"], row["server"]) for row in rows}
    expected = [
        (t.block, t.client_name, each.start_seconds, each.bits_per_second, each.retransmits)
        for t in run.trials
        if t.test == test and (str(t.block), t.client_name, t.server_name) in drawn
        for each in (run.raw[t.key.id].series if t.key.id in run.raw else ())
    ]
    assert expected
    same(rows, expected, "block", "client", "start_seconds", "rate_bits_per_second", "retransmits")


def check_ecdf(run: Run, rows: Rows) -> None:
    pooled = defaultdict(list)
    for trial in run.trials:
        if trial.is_measured and not trial.warm_up and trial.key.id in run.raw:
            for values in run.raw[trial.key.id].samples.values():
                pooled[trial.arm] += values
    name = next(name for name in rows[0] if name.endswith("_seconds"))
    for arm, values in pooled.items():
        ordered = sorted(values)
        of_arm = [row for row in rows if row["arm"] == arm]
        assert {row["values"] for row in of_arm} == {str(len(values))}
        points = [row for row in of_arm if row["point"] == "raw value"]
        assert [float(row[name]) for row in points] == [
            ordered[int(row["rank"]) - 1] for row in points
        ]
        assert points[-1]["rank"] == str(len(values))
        (middle,) = (row for row in of_arm if row["point"] == "p50")
        assert float(middle[name]) == pytest.approx(statistics.median(values))


def check_matrix(run: Run, rows: Rows) -> None:
    test = run.results.plan["tests"][0]["name"]
    by_pair = defaultdict(list)
    for trial in run.trials:
        if trial.test == test and trial.is_measured and not trial.warm_up:
            key = trial.arm, trial.client_name, trial.server_name
            by_pair[key].append(trial.values["throughput"])
    arm = rows[0]["arm"]
    expected = [(*key, statistics.median(v)) for key, v in by_pair.items() if key[0] == arm]
    same(rows, expected, "arm", "client", "server", "throughput_median_bits_per_second")


def check_draws(campaign: Campaign, rows: Rows) -> None:
    answer = campaign.results.answers[0]
    medians = [f"{side}_median_bits_per_second" for side in ("arm", "baseline")]
    expected: list[tuple[object, ...]] = [
        ("draw", draw.run_id, draw.ratio, *(draw.ci95 or (None, None)), draw.arm_median)
        for draw in answer.draws
    ]
    for interval in (answer.ci95, answer.ci_simultaneous):
        expected.append(("average", None, answer.ratio, *(interval or (None, None)), None))
    expected.append(("next deployment", None, None, *(answer.prediction95 or (None, None)), None))
    same(rows, expected, "what", "run_id", "ratio", "low", "high", medians[0])


def check_sweep(campaign: Campaign, rows: Rows) -> None:
    first = campaign.results.sweep[0]
    expected = [
        (cell.value, cell.arm, cell.mean, cell.ratio, cell.verdict)
        for cell in campaign.results.sweep
        if (cell.test, cell.metric) == (first.test, first.metric)
    ]
    mean = f"{first.metric}_mean_bits_per_second"
    same(rows, expected, "nodes", "arm", mean, "ratio", "verdict")


CHECKS: dict[str, Callable[..., None]] = {
    "trials": check_trials,
    "interval": check_interval,
    "series": check_series,
    "ecdf": check_ecdf,
    "matrix": check_matrix,
    "draws": check_draws,
    "sweep": check_sweep,
}
