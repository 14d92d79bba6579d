"""Print what the tests covered of the domain: each room, and the files below 90 %.

Run as `python -m scripts.coverage_table` after `pytest --cov --cov-report=`. A share is of lines
and branches together, as coverage.py counts them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from coverage import Coverage

ENOUGH = 0.9
PARTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def share(counts: Mapping[str, int]) -> float:
    """The share of lines and branches that were run; 1 of nothing."""
    of = counts["num_statements"] + counts["num_branches"]
    return (counts["covered_lines"] + counts["covered_branches"]) / of if of else 1.0


def rooms(files: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The counts of each folder below functions/, and of their total, by its name."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(PARTS, 0))
    for path, counts in sorted(files.items()):
        package, *rest = PurePath(path).relative_to("functions").parts
        for room in (f"{package}/{rest[0]}" if len(rest) > 1 else package, "total"):
            for part in PARTS:
                found[room][part] += counts[part]
    found["total"] = found.pop("total", dict.fromkeys(PARTS, 0))  # last
    return dict(found)


def table(files: Mapping[str, Mapping[str, int]]) -> str:
    """The table.

    Args:
        files: by path, as coverage.py's JSON report summarizes them.
    """
    lines = [f"{'coverage of':<24}{'lines':>8}{'branches':>10}{'share':>9}"]
    for room, counts in rooms(files).items():
        sizes = f"{counts['num_statements']:>8}{counts['num_branches']:>10}"
        lines.append(f"{room:<24}{sizes}{share(counts):>9.1%}")
    few = {path: share(counts) for path, counts in sorted(files.items()) if share(counts) < ENOUGH}
    lines += [f"below {ENOUGH:.0%}: {path} {found:.1%}" for path, found in few.items()]
    return "\n".join(lines)


def summaries() -> dict[str, Any]:
    """The summary of each file, out of the data that pytest-cov left."""
    measured = Coverage()
    measured.load()
    with TemporaryDirectory() as directory:
        file = Path(directory) / "coverage.json"
        measured.json_report(outfile=str(file))
        report = json.loads(file.read_text("utf-8"))
    return {path: found["summary"] for path, found in report["files"].items()}


def main() -> int:
    """Entry."""
    print(table(summaries()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
