"""The names that AWS's errors get, and how long a call may last."""

from __future__ import annotations

import re
import socket

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from rackrate import aws
from rackrate.errors import AwsUnavailable, Throttled, translated
from tests import ROOT
from tests.templates.cloudformation import load


def refusal(code, status=400):
    return ClientError(
        {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}},
        "PutItem",
    )


@pytest.mark.parametrize(
    "code",
    ["ThrottlingException", "SlowDown", "ProvisionedThroughputExceededException", "Throttling"],
)
def test_a_throttle_of_aws_has_the_name_that_is_retried(code):
    with pytest.raises(Throttled, match=code), translated():
        raise refusal(code, 503)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InternalServerError", 500),
        ("InternalFailure", 500),
        ("502", 502),
        ("ServiceUnavailable", 503),
        ("504", 504),
        ("ExpiredToken", 400),
        ("ExpiredTokenException", 400),
        ("RequestExpired", 400),
        ("RequestTimeTooSkewed", 403),
        ("UnrecognizedClientException", 400),
        ("RequestTimeout", 400),
    ],
)
def test_a_failure_of_aws_and_an_expired_token_have_the_name_that_is_retried(code, status):
    with pytest.raises(AwsUnavailable, match=code), translated():
        raise refusal(code, status)


@pytest.mark.parametrize("code", ["InvalidSignatureException", "SignatureDoesNotMatch"])
def test_a_signature_of_another_time_is_retried_and_a_wrong_one_is_not(code):
    expired = refusal(code, 403)
    expired.response["Error"]["Message"] = "Signature expired: 20261123T120000Z is now earlier"
    with pytest.raises(AwsUnavailable), translated():
        raise expired
    with pytest.raises(ClientError), translated():
        raise refusal(code, 403)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDenied",
        "AccessDeniedException",
        "ValidationException",
        "KMSDisabledException",
        "KMS.DisabledException",
        "ConditionalCheckFailedException",
        "NoSuchBucket",
        "ResourceNotFoundException",
        "LimitExceededException",
    ],
)
def test_a_refusal_that_stays_is_not_retried(code):
    with pytest.raises(ClientError), translated():
        raise refusal(code)


def client(port, **patience):
    config = Config(retries={"total_max_attempts": 1}, **patience)
    return aws.session().client(
        "sts",
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config,
    )


def test_a_connection_that_is_refused_or_gets_no_answer_has_the_name_that_is_retried():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(AwsUnavailable, match="Read timeout"), translated():
            client(port, read_timeout=0.2).get_caller_identity()
    with pytest.raises(AwsUnavailable, match="Could not connect"), translated():
        client(port).get_caller_identity()


def test_a_call_that_gets_no_answer_ends_before_the_shortest_function():
    config = aws.session().client("sts", region_name="us-east-1").meta.config
    attempts = config.retries["total_max_attempts"]
    # botocore waits up to 2^n seconds before its n-th repetition (standard retry mode).
    pauses = sum(2**number for number in range(attempts - 1))
    templates = [load(path) for path in (ROOT / "templates").glob("*.yaml")]
    shortest = min(
        properties["Timeout"]
        for template in templates
        for properties in [
            template.get("Globals", {}).get("Function", {}),
            *(resource["Properties"] for resource in template["Resources"].values()),
        ]
        if isinstance(properties.get("Timeout"), int)
    )
    assert attempts * (config.connect_timeout + config.read_timeout) + pauses < shortest


def test_every_call_says_that_it_is_rackrates():
    for service in ("s3", "ec2"):
        config = aws.session().client(service, region_name="us-east-1").meta.config
        assert config.user_agent.startswith("rackrate ")


def test_every_function_of_a_state_turns_what_passes_by_itself_into_a_retried_name():
    for path in (ROOT / "functions" / "handlers").glob("*.py"):
        text = path.read_text()
        if "LambdaContext" in text and "serve(" not in text:
            assert re.search(r"@translated\(\)\n *def handler", text), path.name
