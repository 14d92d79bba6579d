"""What a reader sees first: which run this is, what came out of it, and what to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rackrate import conclusion
from rackrate.report.markup import (
    cell,
    count,
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
_MOST_ARMS = 3


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
        f"started {escape(str(run['started_at']))}" if run.get("started_at") else "",
        f"{run['seconds']:.0f} s" if run.get("seconds") is not None else "",
        f"{counts['measured']} of {count(counts['planned'], 'trial')} measured"
        if counts.get("planned") is not None
        else "",
        f"seed {run['seed']}" if run.get("seed") is not None else "",
    ]
    return f"<h1>{escape(title(results))}</h1>" + paragraph(
        " · ".join(fact for fact in facts if fact), "quiet"
    )


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
                *(paragraph(escape(part)) for part in _details(results)),
                *(paragraph(escape(str(each)), "warning") for each in results["warnings"]),
            ]
        ),
    )


def _failure(run: Json) -> str:
    if not run.get("error"):
        return ""
    cause = escape(run.get("cause") or "")
    return f'<p class="failed"><strong>{escape(run["error"])}</strong>\n{cause}</p>'


def _details(results: Json) -> Sequence[str]:
    said = str(results["conclusion"])
    return [said] if said != headline(results) else []


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
    verdicts = results["verdicts"]
    if not verdicts:
        return str(results["conclusion"])
    compared = list(dict.fromkeys((v["arm"], v["baseline"]) for v in verdicts))
    if len(compared) > _MOST_ARMS:
        return _counted(verdicts)
    if results.get("comparison"):
        return _of_two_runs(results["comparison"], compared, verdicts)
    baselines = {baseline for _, baseline in compared}
    clauses = [
        f"{arm} {_clause([v for v in verdicts if (v['arm'], v['baseline']) == (arm, baseline)])}"
        + (f" (against {baseline})" if len(baselines) > 1 else "")
        for arm, baseline in compared
    ]
    start = f"Against {baselines.pop()}, " if len(baselines) == 1 else ""
    return f"{start}{'; '.join(clauses)}."


def _of_two_runs(
    comparison: Json, compared: Sequence[tuple[str, str]], verdicts: Sequence[Json]
) -> str:
    """What differed between two runs, then what became of their arms."""
    differed = [str(each["what"]) for each in comparison["differences"]]
    if len(differed) > _MOST_NAMED:
        rest = len(differed) - _MOST_NAMED + 1
        differed = [*differed[: _MOST_NAMED - 1], f"{rest} more"]
    clauses = [f"{arm} {_clause([v for v in verdicts if v['arm'] == arm])}" for arm, _ in compared]
    return (
        f"The runs differ in {listed(differed) if differed else 'nothing that they recorded'};"
        f" {'; '.join(clauses)}, against {'the same arm' if len(clauses) == 1 else 'each itself'}"
        f" in {comparison['with']}."
    )


def _clause(verdicts: Sequence[Json]) -> str:
    """What became of an arm: `is better in a (2.00 times) and shows ... in b`."""
    verbs = {
        "better": "is better in",
        "worse": "is worse in",
        "no meaningful difference": "shows no meaningful difference in",
        "inconclusive": "is inconclusive in",
    }
    said: list[str] = []
    for word in [*verbs, *(v["verdict"] for v in verdicts if v["verdict"] not in verbs)]:
        named = [_named(v) for v in verdicts if v["verdict"] == word]
        if named and (verb := verbs.get(word, f"is {word} in")) not in " ".join(said):
            if len(named) > _MOST_NAMED:
                more = len(named) - _MOST_NAMED + 1
                named = [*named[: _MOST_NAMED - 1], count(more, "other comparison")]
            said.append(f"{verb} {listed(named)}")
    return listed(said)


def _named(verdict: Json) -> str:
    name = conclusion.subject(verdict)
    decided = verdict["verdict"] in ("better", "worse") and verdict["ratio"] is not None
    return f"{name} ({verdict['ratio']:.2f} times)" if decided else name


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
    rows = (
        [row_head(text(each["what"])), cell(_told(each["run"])), cell(_told(each["with"]))]
        for each in found
    )
    heads = ("what", str(compared["run"]), str(compared["with"]))
    return section(
        "differences",
        "What differed",
        intro + table(heads, rows, caption="What was recorded differently of the two runs"),
    )


def _told(value: object) -> str:
    """A recorded value: what has several parts is a list."""
    if isinstance(value, list | tuple):
        return items(text(each) for each in value) or text(None)
    return text(value)
