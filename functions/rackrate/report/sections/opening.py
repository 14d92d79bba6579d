"""What a reader sees first: which run this is, what came out of it, and what to know of it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from html import escape

from rackrate import conclusion
from rackrate.report.markup import (
    cell,
    count,
    folded,
    items,
    listed,
    paragraph,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.material import Json, Material

#: So many things of a kind are named in the headline; of more, some.
_MOST_NAMED = 4
_MOST_CLAUSES = 3
#: A longer conclusion is folded away.
_LONG = 700


def title(results: Json) -> str:
    """The page's title, as text."""
    compared = results.get("comparison")
    if compared:
        return f"rackrate: {compared['run']} compared with {_other(compared)}"
    return f"rackrate: {results['run']['id']}"


def _other(compared: Json) -> str:
    if compared.get("baseline"):
        return f"{compared['with']} (baseline {compared['baseline']})"
    return str(compared["with"])


def header(results: Json) -> str:
    """The name of the run, and how it went."""
    run, counts = results["run"], results["trials"]
    facts = [
        text(run.get("status")) if run.get("status") else "",
        f"started {_moment(str(run['started_at']))}" if run.get("started_at") else "",
        f"{run['seconds']:.0f} s" if run.get("seconds") is not None else "",
        f"{counts['measured']} of {count(counts['planned'], 'trial')} measured"
        if counts.get("planned") is not None
        else "",
        f"seed {run['seed']}" if run.get("seed") is not None else "",
    ]
    return f"<h1>{escape(title(results))}</h1>" + paragraph(
        " · ".join(fact for fact in facts if fact), "quiet"
    )


def _moment(iso: str) -> str:
    """A time to the minute, as markup."""
    try:
        time = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    except ValueError:
        return escape(iso)
    return f'<time datetime="{escape(iso, quote=True)}">{time:%Y-%m-%d %H:%M} UTC</time>'


def opening(material: Material) -> str:
    """The conclusion: one sentence, then the details, then what went otherwise than planned."""
    results = material.results
    return section(
        "conclusion",
        "Conclusion",
        "".join(
            [
                _failure(results["run"]),
                paragraph(escape(headline(results)), "headline"),
                _scale(material),
                _details(results),
                *(
                    paragraph(escape(str(each)), "warning")
                    for each in results["warnings"]
                    if str(each) != _words(results["run"].get("cause") or "")
                ),
            ]
        ),
    )


def _failure(run: Json) -> str:
    if not run.get("error"):
        return ""
    cause = escape(_words(run.get("cause") or ""))
    return f'<p class="failed"><strong>{escape(run["error"])}</strong>\n{cause}</p>'


def _words(cause: str) -> str:
    """What a cause says: of a function that raised, it is JSON with the stack trace in it."""
    try:
        document = json.loads(cause)
    except ValueError:
        return cause
    told = document.get("errorMessage") if isinstance(document, dict) else None
    return str(told) if told else cause


def _details(results: Json) -> str:
    """The conclusion in full, with its intervals and what qualifies it."""
    said = str(results["conclusion"])
    if said == headline(results):
        return ""
    full = paragraph(escape(said))
    return folded("The conclusion in full, with its intervals", full) if len(said) > _LONG else full


def _scale(material: Material) -> str:
    if material.scale is None:
        return ""
    return paragraph(
        f"The network of these nodes is scaled by {material.scale:g} on purpose; the documented"
        " limits below are scaled alike. The figures are not EC2's.",
        "scale",
    )


def headline(results: Json) -> str:
    """The run in one sentence, as text: which way each comparison went."""
    verdicts, counts = results["verdicts"], results["trials"]
    if counts["planned"] and not counts["measured"]:
        return (
            f"Nothing was measured: none of the {count(counts['planned'], 'trial')} has a value,"
            " so nothing can be said of any arm."
        )
    if not verdicts:
        return str(results["conclusion"])
    comparison = results.get("comparison")
    baselines = {v["baseline"] for v in verdicts}
    if len(baselines) > 1 and not comparison:
        return _counted(verdicts)
    clauses = _clauses(verdicts)
    if len(clauses) > _MOST_CLAUSES:
        return _counted(verdicts)
    if comparison:
        itself = "the same arm" if len({v["arm"] for v in verdicts}) == 1 else "the same arms"
        return (
            f"{_differ(comparison['differences'])}; {'; '.join(clauses)}, against {itself} in"
            f" {comparison['with']}."
        )
    return f"Against {baselines.pop()}, {'; '.join(clauses)}."


def _differ(differences: Sequence[Json]) -> str:
    """What two runs differ in, in a few words."""
    differed = [str(each["what"]) for each in differences]
    if len(differed) > _MOST_NAMED:
        rest = len(differed) - _MOST_NAMED + 1
        differed = [*differed[: _MOST_NAMED - 1], f"{rest} more"]
    return f"The runs differ in {listed(differed) if differed else 'nothing that they recorded'}"


def _clauses(verdicts: Sequence[Json]) -> list[str]:
    """What became of the arms, in a clause for all those that came out alike."""
    of_arms: dict[str, list[Json]] = {}
    for verdict in verdicts:
        of_arms.setdefault(str(verdict["arm"]), []).append(verdict)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for arm, found in of_arms.items():
        outcome = tuple((conclusion.subject(v), str(v["verdict"])) for v in found)
        alike.setdefault(outcome, []).append(arm)
    return [
        f"{listed(arms)} {_clause([v for arm in arms for v in of_arms[arm]], len(arms))}"
        for arms in alike.values()
    ]


_VERBS = {
    "better": ("is better in", "are better in"),
    "worse": ("is worse in", "are worse in"),
    "no meaningful difference": (
        "shows no meaningful difference in",
        "show no meaningful difference in",
    ),
    "inconclusive": ("is inconclusive in", "are inconclusive in"),
}


def _clause(verdicts: Sequence[Json], arms: int) -> str:
    """What became of arms that came out alike: `is better in a (2.00 times) and shows ... in b`."""
    said = []
    for word in dict.fromkeys([*_VERBS, *(str(v["verdict"]) for v in verdicts)]):
        by_subject: dict[str, list[Json]] = {}
        for verdict in verdicts:
            if verdict["verdict"] == word:
                by_subject.setdefault(conclusion.subject(verdict), []).append(verdict)
        if not by_subject:
            continue
        named = [_named(subject, found) for subject, found in by_subject.items()]
        if len(named) > _MOST_NAMED:
            more = len(named) - _MOST_NAMED + 1
            named = [*named[: _MOST_NAMED - 1], count(more, "other comparison")]
        verbs = _VERBS.get(word, (f"is {word} in", f"are {word} in"))
        said.append(f"{verbs[arms > 1]} {listed(named)}")
    return listed(said)


def _named(subject: str, verdicts: Sequence[Json]) -> str:
    """What was compared, and by how much the arms differ where that is decided."""
    ratios = [v["ratio"] for v in verdicts if v["ratio"] is not None]
    if not ratios or verdicts[0]["verdict"] not in ("better", "worse"):
        return subject
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return f"{subject} ({low if low == high else f'{low} to {high}'} times)"


def _counted(verdicts: Sequence[Json]) -> str:
    """Of many arms, how many comparisons went which way."""
    words = list(dict.fromkeys(str(v["verdict"]) for v in verdicts))
    counted = [f"{sum(v['verdict'] == w for v in verdicts)} {w}" for w in words]
    return f"Of {count(len(verdicts), 'comparison')}: {listed(counted)}."


def differences(results: Json) -> str:
    """What differed between two runs that are compared: it comes before what it did."""
    compared = results.get("comparison")
    if not compared:
        return ""
    found = compared["differences"]
    intro = paragraph(
        f"{text(compared['run'])} is compared with {text(_other(compared))}. The two were not"
        " measured at the same time, so whatever changed in between is part of every difference"
        " below, recorded or not."
    )
    if not found:
        return section(
            "differences",
            "What differed",
            intro + "<p>Nothing that the runs recorded: same plan, nodes alike, same versions.</p>",
        )
    return section(
        "differences",
        "What differed",
        intro + differences_table(found, str(compared["run"]), str(compared["with"])),
    )


def differences_table(found: Sequence[Json], run: str, other: str) -> str:
    """What was recorded differently of two runs, which are named."""
    rows = (
        [row_head(text(each["what"])), cell(_told(each["run"])), cell(_told(each["with"]))]
        for each in found
    )
    caption = "What was recorded differently of the two runs"
    return table(("what", run, other), rows, caption=caption)


def _told(value: object) -> str:
    """A recorded value: what has several parts is a list."""
    if isinstance(value, list | tuple):
        return items(text(each) for each in value) or text(None)
    return text(value)
