"""Amazon Linux and Bottlerocket can read the nodes' user data."""

from __future__ import annotations

import base64
import email.parser
import email.policy
import tomllib

import pytest
import yaml

from tests import ROOT
from tests.templates.cloudformation import load, resolver

TEMPLATE = load(ROOT / "templates" / "nodegroup.yaml")


def user_data(ami_type: str, max_pods: str) -> str | None:
    """The user data that the template renders, decoded. None if there is none."""
    parameters = {
        **dict.fromkeys(TEMPLATE["Parameters"], ""),
        "AmiType": ami_type,
        "MaxPods": max_pods,
    }
    data = TEMPLATE["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
    known = resolver(TEMPLATE, parameters)
    rendered = known.resolve({"UserData": data["UserData"]}).get("UserData")
    return None if rendered is None else base64.b64decode(rendered).decode()


@pytest.mark.parametrize("ami_type", ["AL2023_x86_64_STANDARD", "BOTTLEROCKET_x86_64"])
def test_without_settings_there_is_none(ami_type: str) -> None:
    assert user_data(ami_type, "") is None


def test_amazon_linux_gets_a_mime_document_with_a_node_config() -> None:
    text = user_data("AL2023_ARM_64_STANDARD", "20")
    assert text is not None
    message = email.parser.Parser(policy=email.policy.default).parsestr(text)
    assert message.defects == [], "nodeadm's reader forgives nothing"
    (part,) = message.iter_parts()
    assert part.get_content_type() == "application/node.eks.aws"
    document = yaml.safe_load(part.get_payload(decode=True))
    assert (document["apiVersion"], document["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert document["spec"]["kubelet"] == {"flags": ["--max-pods=20"]}


def test_bottlerocket_gets_settings_in_toml() -> None:
    text = user_data("BOTTLEROCKET_ARM_64", "20")
    assert text is not None
    assert tomllib.loads(text) == {"settings": {"kubernetes": {"max-pods": 20}}}
