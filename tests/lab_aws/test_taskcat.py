"""taskcat deploys into the Region with its own API and reports the stack's result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.tests.aws.region import Lab
from tests.taskcat.deploying import Taskcat, TaskcatError

CONFIGURATION = """
project:
  name: small
  regions: [us-east-1]
  template: build/template.yaml
  package_lambda: false
  shorten_stack_name: true
tests:
  plain: {parameters: {Purpose: plain}}
"""

TEMPLATE = {
    "Parameters": {"Purpose": {"Type": "String", "AllowedPattern": "[a-z]+"}},
    "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
}


@pytest.fixture
def taskcat(lab: Lab, tmp_path: Path) -> Taskcat:
    packaged = tmp_path / "packaged"
    packaged.mkdir()
    (packaged / "template.yaml").write_text(json.dumps(TEMPLATE))
    configuration = tmp_path / "taskcat.yml"
    configuration.write_text(CONFIGURATION)
    project = tmp_path / "project"
    project.mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": lab.region.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": lab.region.access_key_id,
        "AWS_SECRET_ACCESS_KEY": lab.region.secret_access_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return Taskcat(environment, packaged, lab.bucket(), project, configuration)


def test_parameters_that_cloudformation_refuses_are_reasons_too(taskcat: Taskcat) -> None:
    with taskcat.deployed("plain", {"Purpose": "UPPER"}) as stack:
        assert stack.status == "CREATE_FAILED"
        assert "Purpose" in stack.reasons[0]


def test_a_stack_is_deleted_also_when_the_test_fails(taskcat: Taskcat) -> None:
    with pytest.raises(RuntimeError, match="the test's own"), taskcat.deployed("plain") as stack:
        raise RuntimeError("the test's own")
    assert stack.deletion[0].status == "DELETE_COMPLETE"


def test_a_test_that_does_not_exist_is_named(taskcat: Taskcat) -> None:
    with pytest.raises(TaskcatError, match="no test 'nonesuch'"), taskcat.deployed("nonesuch"):
        pass
