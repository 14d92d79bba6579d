"""Generate the references from templates (parameters, rights), models (plans, results) and tools.

Usage: make docs
"""

from __future__ import annotations

from pathlib import Path

from scripts import access_reference, parameters, plan_reference, results_reference, tools_reference
from scripts.markdown import ROOT


def documents() -> dict[Path, str]:
    """All files with generated content, by path."""
    makers = (
        parameters,
        access_reference,
        plan_reference,
        results_reference,
        tools_reference,
    )
    return {path: text for maker in makers for path, text in maker.documents().items()}


def main() -> None:
    """Write the files."""
    for path, text in documents().items():
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
