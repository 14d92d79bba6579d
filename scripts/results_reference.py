"""Generate the references of results: the schemas of results and campaigns, the tables' columns.

The schemas come from the models in `rackrate.results.schema` and `rackrate.results.campaign`, which
check results. The columns are those that `rackrate.results.rows` writes. They go to results.md, to
the tables of templates/results.yaml, and to the list of their order. A new tool's columns are
appended to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from rackrate.results import campaign
from rackrate.results.rows import PUBLISHED, TRIALS, VERDICTS
from rackrate.results.schema import schema
from rackrate.results.tables import Column, glue_columns
from scripts.markdown import ROOT, table, with_part

SCHEMA = ROOT / "docs" / "results.schema.json"
CAMPAIGN_SCHEMA = ROOT / "docs" / "campaign.schema.json"
REFERENCE = ROOT / "docs" / "results.md"
TEMPLATE = ROOT / "templates" / "results.yaml"


def documents() -> dict[Path, str]:
    """The generated files by path."""
    reference, template = REFERENCE.read_text(), TEMPLATE.read_text()
    for name, columns in (("trials", TRIALS), ("verdicts", VERDICTS)):
        rows = ((f"`{column.name}`", column.type, column.text) for column in columns)
        part = table(("column", "type", "what it is"), rows)
        reference = with_part(reference, f"columns of {name}", part)
        template = _with_glue_columns(template, name, columns)
    return {
        SCHEMA: json.dumps(schema(), indent=2) + "\n",
        CAMPAIGN_SCHEMA: json.dumps(campaign.schema(), indent=2) + "\n",
        REFERENCE: reference,
        TEMPLATE: template,
        PUBLISHED: "".join(f"{column.name}\n" for column in TRIALS),
    }


def _with_glue_columns(template: str, name: str, columns: Sequence[Column]) -> str:
    """Replace the columns of a Glue table in the template."""
    lines = [
        f"            - {{ Name: {each['Name']}, Type: {each['Type']} }}\n"
        for each in glue_columns(columns)
    ]
    begin = rf"(?s:\n        Name: {name}\n.*?\n          Columns:\n)"
    found, count = re.subn(
        rf"({begin})(?:            - .*\n)+", lambda match: match[1] + "".join(lines), template
    )
    if count != 1:
        raise ValueError(f"{TEMPLATE.name} has {count} tables {name} with columns")
    return found
