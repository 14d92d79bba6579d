"""What opens and what closes a campaign's page: conclusion, scope, differences, and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.report.campaign_material import CampaignMaterial, judged
from rackrate.report.rendering import Part
from rackrate.report.sections.answers import compared
from rackrate.report.sections.campaign_meaning import unknown
from rackrate.report.sections.method import as_json
from rackrate.report.sections.opening import conclusion_part, differ, started
from rackrate.report.sections.verdicts import differences_table
from rackrate.verdict import hunt as hunting
from rackrate.verdict import sweeps
from rackrate.verdict.campaign import following, headlines
from rackrate.verdict.headline import counts, headline
from rackrate_contract.campaign import CampaignKind
from rackrate_text.units import dollars, took
from rackrate_text.words import capitalized, counted, listed

_KINDS: Mapping[CampaignKind, str] = {
    "draws": "campaign of draws",
    "sweep": "sweep",
    "pool": "pool of earlier runs",
    "hunt": "hunt for a placement",
}


def facts(page: CampaignMaterial) -> Sequence[str]:
    """The status of the campaign, for the line below the title."""
    facts, steps = page.results.campaign, page.results.steps
    return (
        _KINDS[facts.kind],
        facts.status,
        started(facts.started_at),
        "" if page.is_pool else took(facts.seconds),
        f"{len(page.useful_steps)} of {counted(len(steps), 'step')} with results",
        f"series {facts.series}" if facts.series else "",
        f"about {dollars(facts.dollars)}" if facts.dollars is not None else "",
    )


def opening(page: CampaignMaterial) -> Part:
    """The conclusion: one sentence, then what it is about, then the details and warnings."""
    facts, answers, hunt = page.results.campaign, page.results.answers, page.results.hunt
    about = [conclusion(page) if following(answers) else "", scope(page)]
    if hunt is not None:
        kept = hunting.kept_in_words(hunt, facts.id, page.results.stopped)
        about = [" ".join(hunting.sentences(hunt)[1:]), kept]
    comparisons = compared(page)
    scopes = dict.fromkeys(each.scope for each in comparisons)
    return conclusion_part(
        following(answers) or conclusion(page),
        comparisons,
        table="answers",
        scope=f"About {listed(scopes)}." if scopes else "",
        failure=(facts.error, facts.cause),
        leading=[differ(page.results.differences)] if page.is_pool else (),
        open_question=unknown(page)[0] if comparisons else "",
        about=about,
        warnings=page.results.warnings,
    )


def conclusion(page: CampaignMaterial) -> str:
    """The result of the campaign in one sentence."""
    answers, hunt = page.results.answers, page.results.hunt
    if hunt is not None:
        return hunting.sentences(hunt)[0]
    if page.metrics:
        return _conclusion_of_sweep(page)
    if not any(answer.draws for answer in answers):
        return page.results.conclusion
    return " ".join(headlines(answers))


def _conclusion_of_sweep(page: CampaignMaterial) -> str:
    """How the other values compare with the first, in one sentence."""
    values = page.metrics[0].values
    verdicts = judged(page.results.sweep)
    if not verdicts:
        return page.results.conclusion
    first = f"against {page.title_of(values[0])}"
    if len(values) == 2:
        return headline(f"{first}, with {page.title_of(values[1])}", verdicts)
    return f"{capitalized(first)}: {counts(verdicts)}."


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


def differences(page: CampaignMaterial) -> Part | None:
    """What differed between the runs of a pool, which precedes their answers."""
    if not page.is_pool:
        return None
    return Part(
        "differences",
        "What differed",
        intro="These runs were not made as one campaign, so whatever differed between them is part"
        " of the variability between draws, recorded or not.",
        differences=differences_table(page.results.differences, "the newest run", "the other runs"),
    )


def method(page: CampaignMaterial) -> Part:
    """How the figures came about, the words, and the plan of the runs."""
    return Part(
        "method",
        "How it was measured",
        template="campaign_method",
        results=page.results,
        is_pool=page.is_pool,
        plan=as_json(page.results.plan),
    )
