"""`rackrate open` shows the page of a run or a campaign, and fetches it where it is missing."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from .campaigns import CAMPAIGN, campaign
from .conftest import DeployedStack, Rackrate

PAGE = b"<!doctype html><title>page</title>"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes what it is to open to this file."""
    script, opened = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    script.chmod(0o755)
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setenv("BROWSER", f"{script} %s")
    return opened


@pytest.fixture
def paged(stack: DeployedStack) -> DeployedStack:
    """A stack whose newest run has no page, unlike the run before it."""
    stack.record("newest", status="aborted", started_at="2026-11-21T09:00:00Z", trials_measured=1)
    stack.record("r1", status="succeeded", trials_measured=3)
    stack.put("r1", "report.html", PAGE)
    return stack


def test_the_newest_run_with_a_page_is_opened(
    paged: DeployedStack, rackrate: Rackrate, tmp_path: Path, opened: Path
) -> None:
    done = rackrate("open")
    page = tmp_path / "out" / "r1" / "report.html"
    assert done.stdout == f"{page}\n"
    assert page.read_bytes() == PAGE
    assert opened.read_text() == page.as_uri()


def test_a_page_that_is_here_is_opened_without_the_stack(
    aws: str, rackrate: Rackrate, tmp_path: Path, opened: Path
) -> None:
    page = tmp_path / "out" / "r1" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_bytes(PAGE)
    rackrate("open", "r1", "--stack", "missing")
    assert opened.read_text() == page.as_uri()


def test_a_campaign_is_opened_by_its_id(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path, opened: Path
) -> None:
    stack.record_campaign(CAMPAIGN, status="succeeded")
    stack.put_campaign(CAMPAIGN, "campaign.json", campaign())
    stack.put_campaign(CAMPAIGN, "report.html", PAGE)
    rackrate("open", CAMPAIGN)
    assert opened.read_text() == (tmp_path / "out" / CAMPAIGN / "report.html").as_uri()


def test_without_a_display_only_the_path_is_printed(
    paged: DeployedStack, rackrate: Rackrate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "out" / "r1" / "report.html"
    document = rackrate.json("open", "r1")
    assert document == {"id": "r1", "path": str(path), "opened": False}


def test_what_has_no_page_is_refused_in_one_sentence(
    paged: DeployedStack, rackrate: Rackrate
) -> None:
    for name, message in (("nope", 'no run "nope"'), ("newest", "newest left no report.html")):
        assert message in rackrate.refused("open", name)
