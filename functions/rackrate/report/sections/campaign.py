"""What opens and what closes a campaign's page: conclusion, scope, differences, and method."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from rackrate.report.campaign_material import CampaignMaterial, judged, sides_of
from rackrate.report.markup import folded, items, paragraph, section, text
from rackrate.report.sections.answers import scope_of
from rackrate.report.sections.method import as_json
from rackrate.report.sections.opening import (
    differences_table,
    failure,
    message,
    moment,
)
from rackrate.report.tiles import Tile, strip
from rackrate.results.campaign import CampaignKind
from rackrate.verdict import sweeps
from rackrate.verdict.campaign import following, headlines, more_needed, subject
from rackrate.verdict.headline import counts, headline
from rackrate.verdict.wording import levels
from rackrate_text.units import change, dollars, took
from rackrate_text.words import capitalized, counted

_KINDS: Mapping[CampaignKind, str] = {
    "draws": "campaign of draws",
    "sweep": "sweep",
    "pool": "pool of earlier runs",
}
#: The meaning of the page's words, for a reader who has not met them.
_WORDS = (
    ("draw", "one placement of all arms' nodes. New nodes are a new draw."),
    ("average", "the geometric mean of the draws' ratios: what the group buys on average."),
    (
        "95 % interval of the average",
        "the range in which the average over all placements lies, as far as these draws tell."
        " More draws make it narrower; more blocks in a run do not.",
    ),
    (
        "prediction",
        "the range in which the ratio of one more deployment lies with 95 %, for each answer by"
        " itself and for the time of the draws. It stays wide however many draws there are, because"
        " placements differ.",
    ),
    (
        "variability between draws",
        "how much placements differ from each other, beyond what the runs' own uncertainty"
        " explains. Few draws know it badly, so its 95 % upper bound is beside it.",
    ),
    ("a run's own interval", "the range of the true ratio on the nodes of that run, and no other."),
)


def title(page: CampaignMaterial) -> str:
    """The page's title, as text."""
    return f"rackrate: {page.results.campaign.id}"


def header(page: CampaignMaterial) -> str:
    """The name of the campaign, and its status."""
    facts, steps = page.results.campaign, page.results.steps
    said = (
        _KINDS[facts.kind],
        text(facts.status),
        f"started {moment(facts.started_at)}",
        "" if page.is_pool else took(facts.seconds),
        f"{len(page.useful_steps)} of {counted(len(steps), 'step')} with results",
        *([f"series {text(facts.series)}"] if facts.series else []),
        *([f"about {text(dollars(facts.dollars))}"] if facts.dollars is not None else []),
    )
    return f"<h1>{escape(title(page))}</h1>" + paragraph(" · ".join(filter(None, said)), "quiet")


def opening(page: CampaignMaterial) -> str:
    """The conclusion: one sentence, then what it is about, then the details and warnings."""
    facts = page.results.campaign
    first = conclusion(page)
    warnings = (
        paragraph(escape(warning), "warning")
        for warning in page.results.warnings
        if warning != message(facts.cause)
    )
    content = [
        failure(facts.error, facts.cause),
        paragraph(escape(first), "headline"),
        strip(_tiles(page), "answers"),
        paragraph(escape(following(page.results.answers))),
        paragraph(escape(scope(page))),
        *warnings,
    ]
    return section("conclusion", "Conclusion", "".join(content))


def conclusion(page: CampaignMaterial) -> str:
    """The result of the campaign in one sentence, as text."""
    answers = page.results.answers
    if page.metrics:
        return _conclusion_of_sweep(page)
    if not any(answer.draws for answer in answers):
        return page.results.conclusion
    return " ".join(headlines(answers))


def _tiles(page: CampaignMaterial) -> list[Tile]:
    answers = page.results.answers
    several = len({sides_of(answer) for answer in answers}) > 1
    return [
        Tile(
            anchor=f"answer-{index}",
            subject=subject(answer),
            sides=sides_of(answer) if several else "",
            change=change(answer.ratio),
            levels=levels(answer),
            word=answer.verdict,
            lacks=more_needed(answer),
            scope=scope_of(answer),
        )
        for index, answer in enumerate(answers)
    ]


def _conclusion_of_sweep(page: CampaignMaterial) -> str:
    """How the other values compare with the first, in one sentence."""
    values = page.metrics[0].values
    told = judged(page.results.sweep)
    if not told:
        return page.results.conclusion
    first = f"against {page.title_of(values[0])}"
    if len(values) == 2:
        return headline(f"{first}, with {page.title_of(values[1])}", told)
    return f"{capitalized(first)}: {counts(told)}."


def scope(page: CampaignMaterial) -> str:
    """What the answers are about, in words that a newcomer repeats correctly.

    For a sweep over nodes it says whether throughput grows near-linearly; other sweeps have none.
    """
    answers = page.results.answers
    if page.results.campaign.swept == "nodes":
        return " ".join(sweeps.growths(page.results.sweep))
    if not answers:
        return ""
    draws = max(len(answer.draws) for answer in answers)
    runs = f"These runs are about {counted(draws, 'placement')}, each about its own"
    if page.results.pooling:
        runs = page.results.pooling.rstrip(".")
    if all(answer.scope == "these draws" for answer in answers):
        return f"{runs}. They are too few for an answer about the placement group."
    claims = dict.fromkeys(a.claim for a in answers if a.scope != "these draws")
    return (
        f"{runs}. The interval of the average is {'. Or it is '.join(claims)}. The prediction is"
        " about the next deployment of the same kind."
    )


def differences(page: CampaignMaterial) -> str:
    """What differed between the runs of a pool, which precedes their answers."""
    if not page.is_pool:
        return ""
    intro = paragraph(
        "These runs were not made as one campaign, so whatever differed between them is part of the"
        " variability between draws, recorded or not."
    )
    found = page.results.differences
    told = (
        differences_table(found, "the newest run", "the other runs")
        if found
        else "<p>Nothing that the runs recorded: same plan, nodes alike, same versions.</p>"
    )
    return section("differences", "What differed", intro + told)


def method(page: CampaignMaterial) -> str:
    """How the figures came about, the words, and the plan of the runs."""
    facts = page.results.campaign
    words = items(f"<strong>{escape(word)}</strong>: {escape(said)}" for word, said in _WORDS)
    plan = as_json(page.results.plan, "The plan of every run as JSON")
    before = (
        paragraph(f"It took over the finished steps of <code>{text(facts.continues)}</code>.")
        if facts.continues
        else ""
    )
    parts = [
        ("How the figures came about", paragraph(escape(page.results.method)) + before),
        *([("What the words mean", words)] if page.results.answers else []),
        *([] if page.is_pool else [("The plan of every run, as it was given", plan)]),
        ("The execution", paragraph(f"<code>{text(facts.execution_arn)}</code>")),
    ]
    return section(
        "method",
        "How it was measured",
        "".join(folded(heading, content) for heading, content in parts)
        + '<p class="quiet">Links to runs lead to the folder <code>runs</code> of the same bucket:'
        " they work where this page and the runs lie as they do there. A run's page has its nodes,"
        " versions, trials and raw output.</p>",
    )
