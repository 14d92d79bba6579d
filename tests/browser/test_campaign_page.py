"""A campaign's page in a browser. test_page.py has what every page must be."""

from __future__ import annotations

import re

from tests.browser.campaigns import Campaign
from tests.browser.looking import FIGURES
from tests.browser.opening import Opened


def test_the_title_names_the_campaign_and_the_page_its_arms(
    page: Opened, campaign: Campaign
) -> None:
    assert campaign.results.campaign.id in page.tab.title()
    text = page.tab.locator("body").text_content() or ""
    titles = {
        name: title
        for answer in campaign.results.answers
        for name, title in zip((answer.arm, answer.baseline), answer.sides, strict=True)
    }
    for step in campaign.results.steps:
        for arm in step.nodes:
            assert titles.get(arm, arm) in text


def test_every_answer_and_every_swept_metric_has_a_figure(page: Opened, campaign: Campaign) -> None:
    kinds = [figure["kind"] for figure in page.in_page(FIGURES)]
    assert kinds.count("draws") == len(campaign.results.answers)
    swept = {(cell.test, cell.metric) for cell in campaign.results.sweep}
    assert kinds.count("sweep") == len(swept)
    assert campaign.results.answers or swept


def test_each_draw_is_a_dot_that_names_its_run_when_it_is_pointed_at(
    page: Opened, campaign: Campaign
) -> None:
    tips = page.in_page(
        """() => [...document.querySelectorAll('figure[data-figure=draws]')].map(figure =>
            [...figure.querySelectorAll('svg title')].map(each => each.textContent)
                .filter(each => each.startsWith('draw ')))"""
    )
    assert [len(each) for each in tips] == [
        len(answer.draws) for answer in campaign.results.answers
    ]
    for tips_of_draws, answer in zip(tips, campaign.results.answers, strict=True):
        assert all(
            draw.run_id in tip for draw, tip in zip(answer.draws, tips_of_draws, strict=True)
        )


def test_links_lead_to_the_runs_of_this_bucket_only(page: Opened, campaign: Campaign) -> None:
    links = page.in_page(
        "() => [...document.querySelectorAll('a')].map(each => each.getAttribute('href'))"
    )
    to_runs = {link for link in links if not link.startswith(("#", "https://docs.aws."))}
    here = {step.run_id for step in campaign.results.steps if step.source is None}
    elsewhere = {step.run_id for step in campaign.results.steps} - here
    linked = {re.fullmatch(r"\.\./\.\./runs/([^/]+)/report\.html", link)[1] for link in to_runs}
    reached = {step.run_id for step in campaign.results.steps if step.status == "succeeded"}
    assert reached & here <= linked
    assert not elsewhere & linked


def test_a_failure_is_reported_in_words(page: Opened, campaign: Campaign) -> None:
    text = page.tab.locator("body").text_content() or ""
    assert "stackTrace" not in text and "errorMessage" not in text
    if campaign.results.campaign.error:
        assert campaign.results.campaign.error in text
        assert "did not come back" in text


def test_the_answers_are_on_the_first_two_screens(page: Opened, campaign: Campaign) -> None:
    top = page.in_page(
        """() => document.querySelector('#answers, #sweep').getBoundingClientRect().top"""
    )
    assert top < 2 * 900
    first = page.in_page("() => document.querySelector('main .headline').textContent")
    assert len(first) < 400
