"""The Region of the lab's own tests, a release, and the commands of the product for both."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from rackrate_cli.main import app
from typer.testing import CliRunner, Result

from lab.tests.aws.conftest import lab as lab
from lab.tests.aws.region import Lab

type Rackrate = Callable[..., Result]

ADDRESS = "https://s3.eu-west-1.amazonaws.com/published"
TEMPLATE = """\
Metadata: { rackrate.dev/template: stack }
Parameters:
  InstanceType: { Type: String, Default: c5.large }
  NodeCount: { Type: Number, Default: 2 }
  Strategy: { Type: String, Default: cluster }
Resources:
  Inner:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: https://s3.eu-west-1.amazonaws.com/published/rackrate/1.2.3/inner.template
      Parameters: { Strategy: !Ref Strategy }
Outputs:
  Type: { Value: !Ref InstanceType }
"""
EXISTING = TEMPLATE.replace(
    "  InstanceType: { Type: String, Default: c5.large }\n",
    "  ExistingClusterName: { Type: String }\n"
    "  TreatmentSelector: { Type: String, Default: a=b }\n",
).replace("InstanceType", "TreatmentSelector")
INNER = """\
Parameters:
  Strategy: { Type: String, Default: cluster }
Resources:
  Group:
    Type: AWS::EC2::PlacementGroup
    Properties: { Strategy: !Ref Strategy }
  Log:
    Type: AWS::Logs::LogGroup
    Metadata: { For: !Ref Group }
  Topic:
    Type: AWS::SNS::Topic
    Properties:
      DisplayName: published
    Metadata:
      CodeUri: s3://published/rackrate/1.2.3/0123
      DefinitionUri:
        Bucket: published
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A small release, packaged for the bucket `published` in eu-west-1."""
    directory = tmp_path / "release"
    directory.mkdir()
    texts = {
        "rackrate.template": TEMPLATE,
        "existing-cluster.template": EXISTING,
        "inner.template": INNER,
        "0123": "code",
        "release.json": json.dumps(
            {
                "schema": "rackrate.release.v2",
                "version": "1.2.3",
                "bucket": "published",
                "address": ADDRESS,
                "prefix": "rackrate/1.2.3",
                "template": "rackrate.template",
                "existing_cluster_template": "existing-cluster.template",
            }
        ),
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    sums = [f"{hashlib.sha256(text.encode()).hexdigest()}  {n}\n" for n, text in texts.items()]
    (directory / "SHA256SUMS").write_text("".join(sums))
    return directory


@pytest.fixture
def name() -> str:
    """The name of a stack that does not exist."""
    return f"up-{uuid4().hex[:8]}"


@pytest.fixture
def rackrate(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Rackrate:
    """Run the command in this process, as a user of the Region."""
    environment = lab.environment()
    for variable in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    def invoke(*arguments: str | Path) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


def buckets_of(lab: Lab) -> set[str]:
    """The names of the buckets that exist."""
    return {bucket["Name"] for bucket in lab.client("s3").list_buckets()["Buckets"]}
