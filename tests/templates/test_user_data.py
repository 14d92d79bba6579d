"""Amazon Linux and Bottlerocket can read the nodes' user data, and bash that of an instance."""

from __future__ import annotations

import base64
import email.parser
import email.policy
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from rackrate import registry
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


# -- the instance outside the cluster

#: Stand for the image's commands. They write what they were called with; the second pull succeeds,
#: and the image lacks netserver.
COMMANDS = """#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/} $*" in
  "aws "*) echo secret ;;
  "ctr image pull "*) [ "$(grep -c "^ctr image pull" "$CALLS")" = 2 ] ;;
  *" netserver "*) exit 1 ;;
esac
"""


def calls_of_the_instance(directory: Path, image: str) -> list[list[str]]:
    """The commands that the instance's user data runs."""
    template = load(ROOT / "templates" / "endpoint.yaml")
    parameters = {**dict.fromkeys(template["Parameters"], ""), "ToolImage": image}
    data = template["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]["UserData"]
    script = directory / "user-data"
    rendered = resolver(template, parameters).resolve(data)
    script.write_bytes(base64.b64decode(rendered))
    assert script.read_text().startswith("#!/bin/bash\n"), "cloud-init runs only such a text"
    for name in ("aws", "ctr", "sleep", "systemctl"):
        (directory / name).write_text(COMMANDS)
        (directory / name).chmod(0o755)
    calls = directory / "calls"
    subprocess.run(
        ["bash", str(script)],
        env={"PATH": f"{directory}:/usr/bin:/bin", "CALLS": str(calls)},
        check=True,
    )
    return [shlex.split(line) for line in calls.read_text().splitlines()]


def test_the_instance_logs_in_to_ecr_of_the_images_region_until_it_has_the_image(
    tmp_path: Path,
) -> None:
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/tools:1"
    calls = calls_of_the_instance(tmp_path, image)
    login = ["aws", "ecr", "get-login-password", "--region", "eu-west-1"]
    pull = ["ctr", "image", "pull", "--user", "AWS:secret", image]
    assert calls[:6] == [
        ["systemctl", "enable", "--now", "containerd"],
        *(login, pull, ["sleep", "5"], login, pull),
    ]


def test_the_instance_serves_every_tool_as_pods_do_and_restarts_what_the_image_has(
    tmp_path: Path,
) -> None:
    image = "docker.io/me/tools:1"
    calls = calls_of_the_instance(tmp_path, image)
    assert ["ctr", "image", "pull", image] in calls
    served = {
        (call[at + 1], *call[at + 2 :])
        for call in calls
        if call[:2] == ["ctr", "run"] and (at := call.index(image))
    }
    tests = [test for tool in registry.names() for test in registry.examples(tool)]
    servers = {(test.server.name, *test.server.argv) for test in tests if test.server is not None}
    # shlex drops the empty arguments of the recorded lines.
    assert {tuple(filter(None, server)) for server in servers} <= served
    labelled = {call[3] for call in calls if call[:3] == ["ctr", "container", "label"]}
    assert labelled == {server[0] for server in served} - {"netserver"}
