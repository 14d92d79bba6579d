"""Write what docs/ has of the results' shape: results.schema.json and results.md's columns.

The schema is made of the models that results are checked with, of `rackrate.report.models`, and the
columns are those that `rackrate.report.trials` writes.

Usage: .venv/bin/python -m scripts.results_reference
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "functions"))

from rackrate.report.models import schema  # noqa: E402
from rackrate.report.tables import Column  # noqa: E402
from rackrate.report.trials import TRIALS, VERDICTS  # noqa: E402

SCHEMA = ROOT / "docs" / "results.schema.json"
REFERENCE = ROOT / "docs" / "results.md"


def documents() -> dict[Path, str]:
    """The two files, as they should be."""
    reference = REFERENCE.read_text()
    for name, columns in (("trials", TRIALS), ("verdicts", VERDICTS)):
        reference = _with_columns(reference, name, columns)
    return {SCHEMA: json.dumps(schema(), indent=2) + "\n", REFERENCE: reference}


def _with_columns(text: str, name: str, columns: Sequence[Column]) -> str:
    """The text with a table's columns between its two marks."""
    begin, end = f"<!-- columns of {name}: begin -->", f"<!-- columns of {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    rows = [f"| `{column.name}` | {column.type} | {column.text} |" for column in columns]
    table = "\n".join(["| column | type | what it is |", "|---|---|---|", *rows])
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    """Write both."""
    for path, text in documents().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
