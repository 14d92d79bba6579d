"""Generate the references of results: the schemas of results and campaigns, the tables' columns.

The schemas come from the types in `rackrate_contract`, which check results. The columns are those
that `rackrate.results.rows` and `rackrate_contract.tables` name. They go to results.md, to the
tables of templates/results.yaml, and to the list of their order. A new tool's columns are appended
to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from rackrate.plan.model import Plan
from rackrate.results.rows import PUBLISHED, TRIALS
from rackrate.results.tables import glue_columns
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.document import Document
from rackrate_contract.results import Results
from rackrate_contract.tables import ANSWERS, VERDICTS, Column
from scripts.markdown import ROOT, table, with_part

SCHEMA = ROOT / "docs" / "results.schema.json"
CAMPAIGN_SCHEMA = ROOT / "docs" / "campaign.schema.json"
REFERENCE = ROOT / "docs" / "results.md"
TEMPLATE = ROOT / "templates" / "results.yaml"


class PlannedResults(Results):
    """The results of a rackrate run."""

    plan: Plan  # type: ignore[assignment]  # the contract leaves its type to the tools


class _Untitled(GenerateJsonSchema):
    """A schema without the titles that pydantic derives from field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(model: type[Document], title: str) -> str:
    """The JSON Schema of a document as it is written, draft 2020-12."""
    schema = model.model_json_schema(mode="serialization", schema_generator=_Untitled)
    for each in (schema, *schema["$defs"].values()):
        # This includes a test's `tool`, which a plan may leave out.
        each["required"] = list(each["properties"])
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, **schema, "title": title}, indent=2) + "\n"


def documents() -> dict[Path, str]:
    """The generated files by path."""
    reference, template = REFERENCE.read_text(), TEMPLATE.read_text()
    for name, columns in (("trials", TRIALS), ("verdicts", VERDICTS), ("answers", ANSWERS)):
        rows = ((f"`{column.name}`", column.type, column.text) for column in columns)
        part = table(("column", "type", "what it is"), rows)
        reference = with_part(reference, f"columns of {name}", part)
        if name != "answers":
            template = _with_glue_columns(template, name, columns)
    return {
        SCHEMA: _schema(PlannedResults, "Results of a rackrate run"),
        CAMPAIGN_SCHEMA: _schema(CampaignResults, "Results of a rackrate campaign"),
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
    result, count = re.subn(
        rf"({begin})(?:            - .*\n)+", lambda match: match[1] + "".join(lines), template
    )
    if count != 1:
        raise ValueError(f"{TEMPLATE.name} has {count} tables {name} with columns")
    return result
