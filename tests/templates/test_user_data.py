"""Amazon Linux and Bottlerocket can read the nodes' user data for all parameters."""

from __future__ import annotations

import base64
import email.parser
import email.policy
import tomllib

import pytest
import yaml

from tests.templates.cloudformation import ROOT, load, resolver

TEMPLATE = load(ROOT / "templates" / "nodegroup.yaml")
KUBELET_CONFIG = '{"cpuManagerPolicy": "static", "allowedUnsafeSysctls": ["net.core.*"]}'


def user_data(ami_type: str, max_pods: str, kubelet_config: str) -> str | None:
    """The user data that the template renders, decoded. None if there is none."""
    parameters = {
        **dict.fromkeys(TEMPLATE["Parameters"], ""),
        "AmiType": ami_type,
        "MaxPods": max_pods,
        "KubeletConfig": kubelet_config,
    }
    data = TEMPLATE["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
    known = resolver(TEMPLATE, parameters)
    rendered = known.resolve({"UserData": data["UserData"]}).get("UserData")
    return None if rendered is None else base64.b64decode(rendered).decode()


@pytest.mark.parametrize("ami_type", ["AL2023_x86_64_STANDARD", "BOTTLEROCKET_x86_64"])
def test_without_settings_there_is_none(ami_type: str) -> None:
    assert user_data(ami_type, "", "{}") is None


@pytest.mark.parametrize(
    ("max_pods", "kubelet_config", "specs"),
    [
        ("20", "{}", [{"flags": ["--max-pods=20"]}]),
        ("", KUBELET_CONFIG, [{"config": yaml.safe_load(KUBELET_CONFIG)}]),
        (
            "20",
            KUBELET_CONFIG,
            [{"flags": ["--max-pods=20"]}, {"config": yaml.safe_load(KUBELET_CONFIG)}],
        ),
    ],
    ids=["most pods", "configuration", "both"],
)
def test_amazon_linux_gets_a_mime_document_of_node_configs(
    max_pods: str, kubelet_config: str, specs: list[dict[str, object]]
) -> None:
    text = user_data("AL2023_ARM_64_STANDARD", max_pods, kubelet_config)
    assert text is not None
    message = email.parser.Parser(policy=email.policy.default).parsestr(text)
    assert message.defects == [], "nodeadm's reader forgives nothing"
    parts = list(message.iter_parts())
    assert {part.get_content_type() for part in parts} == {"application/node.eks.aws"}
    documents = [yaml.safe_load(part.get_payload(decode=True)) for part in parts]
    assert all(document["apiVersion"] == "node.eks.aws/v1alpha1" for document in documents)
    assert all(document["kind"] == "NodeConfig" for document in documents)
    assert [document["spec"]["kubelet"] for document in documents] == specs


def test_bottlerocket_gets_settings_in_toml() -> None:
    text = user_data("BOTTLEROCKET_ARM_64", "20", "{}")
    assert text is not None
    assert tomllib.loads(text) == {"settings": {"kubernetes": {"max-pods": 20}}}
