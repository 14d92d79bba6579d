"""The house's own nested stacks stand and fall in the emulated Region, those without functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.aws.cloudformation.resources import resource_types
from lab.aws.cloudformation.template import apply_transforms, parse_template

from .conftest import Lab

ROOT = Path(__file__).parents[2]
TEMPLATES = [ROOT / "template.yaml", *sorted((ROOT / "templates").glob("*.yaml"))]
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:m"
NETWORK = {
    "VpcCidr": "10.0.0.0/16",
    "AvailabilityZone": "us-east-1a",
    "OtherAvailabilityZone": "us-east-1b",
}
OBSERVED = {
    "StackName": "s",
    "StateMachineArn": MACHINE,
    "FunctionNames": "a,b",
    "TeardownFunctionName": "b",
    "KeyArn": "",
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_property_of_the_house_is_carried_out_in_the_lab(path: Path) -> None:
    template = parse_template(path.read_text())
    sections = [r.get("Properties", {}) for r in template["Resources"].values()]
    for section in [*sections, (template.get("Globals") or {}).get("Function", {})]:
        if "CodeUri" in section:  # as `sam package` leaves it
            section["CodeUri"] = "s3://bucket/code.zip"
        if "DefinitionUri" in section:
            section["DefinitionUri"] = {"Bucket": "bucket", "Key": "machine.yaml"}
    given = {n: s.get("Default", "x") for n, s in (template.get("Parameters") or {}).items()}
    types = resource_types()
    for resource in apply_transforms(template, given, "us-east-1")["Resources"].values():
        if not resource["Type"].startswith("Custom::"):
            types[resource["Type"]].check(resource.get("Properties") or {})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("network", {**NETWORK, "SecondaryCidr": "", "Egress": "nat"}),
        ("network", {**NETWORK, "SecondaryCidr": "100.64.0.0/16", "Egress": "endpoints"}),
        ("encryption", {"StackName": "s", "RetainResults": "false"}),
        *(
            (
                "placement",
                {
                    "Strategy": strategy,
                    "PartitionCount": "3",
                    "SpreadLevel": "rack",
                    "ExistingGroupName": "",
                },
            )
            for strategy in ("cluster", "partition", "spread")
        ),
        ("observability", {**OBSERVED, "AlarmEmail": "a@example.com", "AlarmTopicArn": ""}),
    ],
)
def test_the_houses_stacks_stand_and_fall(lab: Lab, name: str, values: dict[str, Any]) -> None:
    stack = lab.stack(
        (ROOT / "templates" / f"{name}.yaml").read_text(),
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in values.items()],
    )
    assert stack["StackStatus"] == "CREATE_COMPLETE", lab.reasons(stack["StackId"])
    gone = lab.delete(stack["StackId"])
    assert gone["StackStatus"] == "DELETE_COMPLETE", lab.reasons(stack["StackId"])
