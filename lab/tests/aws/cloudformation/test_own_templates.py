"""The lab implements all properties that our own templates use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from lab.aws.cloudformation.resources import TYPES
from lab.aws.cloudformation.resources.instances import PlainInstance
from lab.aws.cloudformation.template import apply_transforms, parse_template

ROOT = Path(__file__).parents[4]


ROOTS = [ROOT / "template.yaml", ROOT / "existing-cluster.yaml"]
TEMPLATES = [*ROOTS, *sorted((ROOT / "templates").glob("*.yaml"))]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_property_of_the_house_is_carried_out_in_the_lab(path: Path) -> None:
    known = {**TYPES, PlainInstance.type: PlainInstance(*[cast(Any, None)] * 3)}
    template = parse_template(path.read_text())
    sections = [r.get("Properties", {}) for r in template["Resources"].values()]
    for section in [*sections, (template.get("Globals") or {}).get("Function", {})]:
        if "CodeUri" in section:  # in the form that `sam package` writes
            section["CodeUri"] = "s3://bucket/code.zip"
        if "ContentUri" in section:
            section["ContentUri"] = "s3://bucket/layer.zip"
        if "DefinitionUri" in section:
            section["DefinitionUri"] = {"Bucket": "bucket", "Key": "machine.yaml"}
    parameters = {n: s.get("Default", "x") for n, s in (template.get("Parameters") or {}).items()}
    for resource in apply_transforms(template, parameters, "us-east-1")["Resources"].values():
        if not resource["Type"].startswith(("AWS::CloudFormation::", "Custom::")):
            known[resource["Type"]].check(resource.get("Properties") or {})
