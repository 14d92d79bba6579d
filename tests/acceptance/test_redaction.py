"""Nothing that identifies an account, or lets somebody in, is in what an acceptance records."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.recording import VARIABLE
from acceptance.redaction import HIDDEN, Redaction

REDACTION = Redaction("salt", ("jane.doe", "laptop"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arn:aws:iam::111122223333:user/jane.doe", "arn:aws:iam::000000000000:user/caller"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA0000000000000000"),
        ("https://b/k?X-Amz-Signature=ab&X-Amz-Date=1", f"https://b/k?X-Amz-Signature={HIDDEN}&X-Amz-Date={HIDDEN}"),
        ("to jane@example.org", "to someone@example.com"),
        ("from 2600:1f14::1 on", "from 2001:db8::1 on"),
    ],
)  # fmt: skip
def test_what_identifies_an_account_is_replaced(text: str, expected: str) -> None:
    assert REDACTION.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0/0",
        "arn:aws:s3:::bucket/key at 2026-11-28T08:56:44+00:00",
        "v1.21.1-eksbuild.1, 1.36.2-20260714",
        f"tools@sha256:{'ab' * 32}",
        "laptops",
    ],
)
def test_versions_times_names_and_digests_stay(text: str) -> None:
    assert REDACTION.text(text) == text


@given(st.ip_addresses(v=4))
def test_an_address_is_replaced_by_one_that_no_network_routes(address: Any) -> None:
    text = REDACTION.text(f"at {address}, {address}/16")
    if str(address) != "0.0.0.0":
        assert re.fullmatch(r"at (198\.1[89]\.\d+\.\d+), \1/16", text)
        assert Redaction("other").text(f"{address}") != REDACTION.text(f"{address}")


def test_names_of_hosts_that_are_addresses_are_replaced_like_them() -> None:
    address = REDACTION.text("10.0.1.2")
    assert REDACTION.text("ip-10-0-1-2.ec2.internal") == (
        f"ip-{address.replace('.', '-')}.ec2.internal"
    )


def test_what_the_model_calls_sensitive_and_what_its_name_gives_away_is_hidden() -> None:
    sts = boto3.client("sts", region_name="us-east-1").meta.service_model
    shape = sts.operation_model("AssumeRole").output_shape
    keys = {
        "AccessKeyId": "ASIAIOSFODNN7EXAMPLE",
        "SecretAccessKey": "wJalrXUtnFEMI",
        "SessionToken": "FwoGZXIvYXdzE",
        "Expiration": datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC),
    }
    written = json.dumps(REDACTION.value({"Credentials": keys}, shape))
    assert "wJalr" not in written
    assert "FwoG" not in written
    assert "2026-11-28" in written


def test_a_recorded_program_writes_its_calls_and_their_responses(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    settings = {"file": str(file), "part": "p", "program": "x", "salt": "s", "names": []}
    (tmp_path / "program.py").write_text(
        "import boto3\n"
        "from botocore.config import Config\n"
        "config = Config(retries={'max_attempts': 0}, connect_timeout=1)\n"
        "client = boto3.client('sqs', endpoint_url='http://127.0.0.1:9', config=config)\n"
        "client.list_queues(QueueNamePrefix='111122223333')\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "acceptance.recording", "program"],
        env=os.environ
        | {
            VARIABLE: json.dumps(settings),
            "PYTHONPATH": f"{Path(__file__).resolve().parents[2]}:{tmp_path}",
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "EndpointConnectionError" in done.stderr
    (line,) = map(json.loads, file.read_text("utf-8").splitlines())
    assert (line["service"], line["operation"], line["part"]) == ("sqs", "ListQueues", "p")
    assert line["parameters"] == {"QueueNamePrefix": "000000000000"}
    assert line["error"]["Code"] == "EndpointConnectionError"
    assert line["answer"] == {}
