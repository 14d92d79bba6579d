"""Print the size of every template against CloudFormation's limits; fail where one is exceeded.

Usage: .venv/bin/python -m scripts.template_sizes
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.parameters import ROOT, load

TEMPLATES = [ROOT / "template.yaml", *sorted((ROOT / "templates").glob("*.yaml"))]
DEFINITIONS = sorted((ROOT / "statemachine").glob("*.yaml"))

#: AWS CloudFormation user guide, "Understand CloudFormation quotas".
BYTES_INLINE = 51_200
LIMITS = {
    "bytes": 1_048_576,
    "parameters": 200,
    "resources": 500,
    "outputs": 200,
    "mappings": 200,
    "description": 1_024,
    "longest value": 4_096,
}
#: AWS Step Functions developer guide, "Step Functions service quotas".
DEFINITION_BYTES = 1_048_576


@dataclass(frozen=True)
class Size:
    """What a template holds of that which CloudFormation limits.

    Attributes:
        name: of the template's file, with " (SAM)" for what the serverless transform makes of it.
        counts: by the names of `LIMITS`; "bytes" and "description" in bytes of UTF-8, "longest
            value" the bytes of a parameter's longest default or allowed value, or its MaxLength.
    """

    name: str
    counts: Mapping[str, int]

    def excesses(self) -> list[str]:
        """What is beyond its limit, in words."""
        return [
            f"{self.name}: {count} {kind}, where CloudFormation takes {LIMITS[kind]}"
            for kind, count in self.counts.items()
            if count > LIMITS[kind]
        ]


def measure(path: Path) -> Iterator[Size]:
    """The sizes of a template as it is written and, with the transform, as it becomes."""
    template = load(path)
    yield _size(path.name, path.read_text(), template)
    if "Transform" in template:
        transformed = transform(template)
        yield _size(f"{path.name} (SAM)", json.dumps(transformed), transformed)


def transform(template: Mapping[str, Any]) -> dict[str, Any]:
    """What CloudFormation makes of a template with the serverless transform.

    Code and definitions are taken to be in S3, where `sam package` puts them.
    """
    # Imported here: it takes longer to load than everything else takes to run.
    import boto3
    from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
    from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]

    # It complains at exit of metrics that only AWS would collect.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    packaged = copy.deepcopy(dict(template))
    holders = [resource.get("Properties", {}) for resource in packaged["Resources"].values()]
    for properties in [*holders, *packaged.get("Globals", {}).values()]:
        for name in ("CodeUri", "DefinitionUri"):
            if name in properties:
                properties[name] = "s3://bucket/key"
    translator = Translator(None, Parser(), boto_session=boto3.Session(region_name="us-east-1"))
    values = {name: p.get("Default", "") for name, p in packaged.get("Parameters", {}).items()}
    made: dict[str, Any] = translator.translate(packaged, parameter_values=values)
    return made


def _size(name: str, text: str, template: Mapping[str, Any]) -> Size:
    parameters = template.get("Parameters", {})
    return Size(
        name,
        {
            "bytes": len(text.encode()),
            "parameters": len(parameters),
            "resources": len(template.get("Resources", {})),
            "outputs": len(template.get("Outputs", {})),
            "mappings": len(template.get("Mappings", {})),
            "description": len(str(template.get("Description", "")).encode()),
            "longest value": max(map(_longest, parameters.values()), default=0),
        },
    )


def _longest(parameter: Mapping[str, Any]) -> int:
    values = [parameter.get("Default", ""), *parameter.get("AllowedValues", [])]
    return max(int(parameter.get("MaxLength", 0)), *(len(str(value).encode()) for value in values))


def table(sizes: list[Size]) -> str:
    """Sizes and limits as a table of text. A star marks what is too large to be passed inline."""
    names = list(LIMITS)
    rows = [["template", *names]]
    for size in sizes:
        large = "*" if size.counts["bytes"] > BYTES_INLINE else ""
        rows.append(
            [size.name, *(f"{size.counts[n]:,}" + (large if n == "bytes" else "") for n in names)]
        )
    rows.append(["limit", *(f"{LIMITS[name]:,}" for name in names)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.append(f"* above {BYTES_INLINE:,} bytes: deploys from S3 only, as `sam deploy` does")
    return "\n".join(lines)


def definition_excesses() -> list[str]:
    """State machine definitions that are larger than Step Functions takes, in words."""
    sizes = {
        path.name: len(json.dumps(yaml.safe_load(path.read_text())).encode())
        for path in DEFINITIONS
    }
    return [
        f"{name}: {size} bytes, where Step Functions takes {DEFINITION_BYTES}"
        for name, size in sizes.items()
        if size > DEFINITION_BYTES
    ]


def main() -> int:
    """Print the table; returns 1 where something is beyond its limit."""
    sizes = [size for path in TEMPLATES for size in measure(path)]
    print(table(sizes))
    excesses = [each for size in sizes for each in size.excesses()] + definition_excesses()
    for excess in excesses:
        print(f"too large: {excess}", file=sys.stderr)
    return 1 if excesses else 0


if __name__ == "__main__":
    sys.exit(main())
