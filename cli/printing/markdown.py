"""A run as Markdown, for a comment on a pull request or a job's summary. Pure.

Names and causes come from plans and tools, so they stand in code spans. Elsewhere GitHub makes
links and mentions of addresses, names and hashes, also of those that are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rackrate_text.printable import printable
from rackrate_text.units import UNKNOWN, change, changes, shift

from .failures import RunFailure
from .verdict import by_comparison, drifts, interval_head, marked_word, scope_line

if TYPE_CHECKING:
    from rackrate_contract.results import Results
    from rackrate_contract.verdicts import Verdict

_SIGNS = {"better": "▲ ", "worse": "▼ ", "no meaningful difference": "= ", "inconclusive": "? "}
#: A comment on GitHub has at most 65 536 characters, and so many bytes are no more characters.
_MOST_BYTES = 64_000
_MOST_CHARACTERS_OF_TEXT = 1000


def markdown(run_id: str, results: Results, failure: RunFailure | None = None) -> bytes:
    """The run as a section with a table, in UTF-8. It fits into a comment on GitHub.

    Args:
        run_id: names the section.
        results: the run's results.
        failure: why it failed, or None if it did not.
    """
    parts = [f"### rackrate: {_code(run_id)}"]
    if failure is not None:
        parts.append(f"**{_code(failure.error)}**: {_code(failure.cause)}")
    parts += _tables(results)
    scale, trials = results.run.lab_scale, results.trials
    if scale is not None:
        parts.append(f"⚠ **Lab run.** Network scaled by {scale:g}: figures are not EC2's.")
    causes = "".join(f"\n- {_code(cause.loss.of_trials)}" for cause in trials.causes)
    parts.append(f"{trials.measured} of {trials.planned} trials measured.{causes}")
    parts += [f"⚠ {_code(warning)}" for warning in results.warnings]
    lines = "\n\n".join(parts).split("\n")
    sizes = accumulate(len(f"{line}\n".encode()) for line in lines)
    shown = sum(size <= _MOST_BYTES for size in sizes)
    if left := len(lines) - shown:
        lines[shown:] = ["", f"⚠ {left} more lines are left out; `rackrate show` prints them."]
    return ("\n".join(lines) + "\n").encode()


def _tables(results: Results) -> list[str]:
    blocks: list[str] = []
    for family in (results.verdicts, results.regressions):
        for verdicts in by_comparison(family):
            blocks += [_code(scope_line(results, verdicts)), _table(verdicts, family)]
            blocks += [f"⚠ {_code(drift)}" for drift in drifts(verdicts)]
    return blocks or [_code(results.conclusion)]


def _table(verdicts: Sequence[Verdict], family: Sequence[Verdict]) -> str:
    interval = interval_head(verdicts, family)
    rows = [
        ["test", "change", "baseline → arm", interval, "verdict"],
        ["---"] * 5,
        *(
            [
                _cell(verdict.name),
                f"**{change(verdict.ratio)}**",
                _cell(shift(baseline, arm, verdict.unit)),
                changes(verdict.ci_simultaneous),
                _SIGNS.get(verdict.verdict, "") + _cell(marked_word(verdict)),
            ]
            for verdict in verdicts
            for arm, baseline in [verdict.levels]
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(text: str) -> str:
    """Text on one line as a code span (GitHub Flavored Markdown, 6.1). A long text is cut."""
    line = " ".join(printable(text).split()) or UNKNOWN
    if (left := len(line) - _MOST_CHARACTERS_OF_TEXT) > 0:
        line = f"{line[:_MOST_CHARACTERS_OF_TEXT]} … {left} more characters"
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _cell(text: str) -> str:
    """The same in a table, whose cells end at a pipe even in code."""
    return _code(text).replace("|", "\\|")
