"""A run as Markdown, for a comment on a pull request or a job's summary. Pure.

Names and causes come from plans and tools, so every one is escaped: none becomes a link, a mention
or markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rackrate_text.printable import printable
from rackrate_text.units import change, changes, shift

from .failures import RunFailure
from .results import Results, Verdict
from .verdict import by_comparison, drifts, interval_head, marked_word, scope_line

_SIGNS = {"better": "▲", "worse": "▼", "no meaningful difference": "=", "inconclusive": "?"}
# What Markdown or a forge gives a meaning.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~@&])")


def markdown(run_id: str, results: Results, failure: RunFailure | None = None) -> bytes:
    """The run as a section with a table, in UTF-8.

    Args:
        run_id: names the section.
        results: the run's results.
        failure: why it failed, or None if it did not.
    """
    parts = [f"### rackrate: {_escaped(run_id)}"]
    if failure is not None:
        parts.append(f"**{_escaped(failure.error)}**: {_escaped(failure.cause)}")
    parts += _tables(results)
    if results.lab_scale is not None:
        parts.append(
            f"⚠ **Lab run.** Network scaled by {results.lab_scale:g}: figures are not EC2's."
        )
    causes = "".join(f"\n- {_escaped(cause.of_trials)}" for cause in results.causes)
    parts.append(f"{results.measured} of {results.planned} trials measured.{causes}")
    parts += [f"⚠ {_escaped(warning)}" for warning in results.warnings]
    return ("\n\n".join(parts) + "\n").encode()


def _tables(results: Results) -> list[str]:
    found: list[str] = []
    for family in (results.verdicts, results.regressions):
        for verdicts in by_comparison(family):
            found += [_escaped(scope_line(results, verdicts)), _table(verdicts, family)]
            found += [f"⚠ {_escaped(drift)}" for drift in drifts(verdicts)]
    return found or [_escaped(results.conclusion)]


def _table(verdicts: Sequence[Verdict], family: Sequence[Verdict]) -> str:
    interval = interval_head(verdicts, family)
    rows = [
        ["test", "change", "baseline → arm", interval, "verdict"],
        ["---"] * 5,
        *(
            [
                _escaped(verdict.name),
                f"**{change(verdict.ratio)}**",
                shift(verdict.baseline_level, verdict.arm_level, verdict.unit),
                changes(verdict.interval),
                _sign(verdict) + _escaped(marked_word(verdict)),
            ]
            for verdict in verdicts
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _sign(verdict: Verdict) -> str:
    sign = _SIGNS.get(verdict.verdict)
    return "" if sign is None else f"{sign} "


def _escaped(text: str) -> str:
    """Text on one line in which nothing is markup."""
    return _MARKUP.sub(r"\\\1", " ".join(printable(text).split()))
