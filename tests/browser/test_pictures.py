"""The pictures of the README: the top of a page, light and dark, in few bytes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import Browser

from scripts.pictures import DENSITY, MOST_HEIGHT, pictures
from tests.browser.conftest import SHOWN


@pytest.mark.parametrize(("name", "whole"), [("draws", True), ("troubled", False)])
def test_both_pictures_of_a_page_are_small_and_one_is_dark(
    browser: Browser, tmp_path: Path, name: str, whole: bool
) -> None:
    page = tmp_path / "report.html"
    page.write_text(SHOWN[name]().page(), "utf-8")
    taken = pictures(browser, page)
    assert max(map(len, taken.values())) < 150_000
    light, dark = (Image.open(io.BytesIO(taken[scheme])) for scheme in ("light", "dark"))
    assert light.size == dark.size
    assert (light.height < DENSITY * MOST_HEIGHT) is whole, "a long page is cut"
    brightness = [ImageStat.Stat(each.convert("L")).mean[0] for each in (light, dark)]
    assert brightness[0] > 200 > 60 > brightness[1]
