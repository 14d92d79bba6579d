"""A fault of an API reaches boto3 as AWS's own error, and only the calls that are meant."""

from __future__ import annotations

import contextlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from lab.errors import LabError
from lab.tests.aws.region import Lab, allow, eventually
from tests.waiting import HUNG_SECONDS


def caller(
    lab: Lab, service: str, attempts: int = 1, of: str = "lambda.amazonaws.com", **config: Any
) -> Any:
    """A client with the credentials of a role that a service assumes, by default of functions."""
    return lab.as_role(lab.role(of, allow("*", "*")), service, attempts, **config)


CALLS = {
    "dynamodb": ("list_tables", {}, "ListTables"),
    "s3": ("put_object", {"Bucket": "b", "Key": "a/b", "Body": b"x"}, "PutObject"),
    "sts": ("get_caller_identity", {}, "GetCallerIdentity"),
    "ec2": ("describe_instances", {}, "DescribeInstances"),
    "eks": ("describe_cluster", {"name": "c"}, "DescribeCluster"),
    "lambda": ("invoke", {"FunctionName": "f"}, "Invoke"),
    "stepfunctions": ("list_state_machines", {}, "ListStateMachines"),
    "events": ("put_events", {"Entries": [{"Source": "a"}]}, "PutEvents"),
    "sns": ("list_topics", {}, "ListTopics"),
    "cloudformation": ("describe_stacks", {}, "DescribeStacks"),
    "codebuild": ("batch_get_builds", {"ids": ["a"]}, "BatchGetBuilds"),
    "kms": ("list_keys", {}, "ListKeys"),
}
THROTTLING = {
    "dynamodb": ("ProvisionedThroughputExceededException", 400),
    "s3": ("SlowDown", 503),
    "ec2": ("RequestLimitExceeded", 503),
    "lambda": ("TooManyRequestsException", 429),
    "sts": ("Throttling", 400),
    "sns": ("Throttling", 400),
    "cloudformation": ("Throttling", 400),
}


def refused(client: Any, service: str) -> tuple[str, int]:
    method, arguments, _ = CALLS[service]
    with pytest.raises(ClientError) as refusal:
        getattr(client, method)(**arguments)
    response = refusal.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("service", CALLS)
def test_a_throttled_call_raises_the_services_own_code(lab: Lab, service: str) -> None:
    client = caller(lab, service)
    prefix = "states" if service == "stepfunctions" else service
    with lab.fault("api-throttled", on=f"{prefix}:{CALLS[service][2]}") as fault:
        assert refused(client, service) == THROTTLING.get(service, ("ThrottlingException", 400))
        assert fault.hits == 1


@pytest.mark.parametrize("service", CALLS)
def test_a_failing_call_is_one_that_boto3_repeats(lab: Lab, service: str) -> None:
    client = caller(lab, service)
    with lab.fault("api-failing"):
        assert refused(client, service)[1] == 500


def test_boto3s_retries_outlast_a_share_of_throttled_calls(lab: Lab) -> None:
    patient = caller(lab, "dynamodb", attempts=12)
    with lab.fault("api-throttled", on="dynamodb", rate=0.3) as fault:
        for _ in range(20):
            patient.list_tables()
        assert fault.hits > 0


def test_a_fault_spares_other_calls_and_the_deployer(lab: Lab) -> None:
    dynamodb, s3 = caller(lab, "dynamodb"), caller(lab, "s3")
    with lab.fault("api-failing", on="dynamodb:PutItem") as fault:
        dynamodb.list_tables()
        s3.list_buckets()
        assert fault.hits == 0
    with lab.fault("api-failing"):
        lab.client("dynamodb").list_tables()


def test_a_fault_can_strike_the_calls_of_the_user_alone(lab: Lab) -> None:
    with lab.fault("api-failing", on="dynamodb", callers="user"):
        caller(lab, "dynamodb").list_tables()
        assert refused(lab.client("dynamodb"), "dynamodb")[1] == 500


def test_an_error_code_can_be_chosen(lab: Lab) -> None:
    client = caller(lab, "dynamodb")
    with lab.fault("api-throttled", on="dynamodb", error="RequestLimitExceeded"):
        assert refused(client, "dynamodb") == ("RequestLimitExceeded", 400)


def test_an_expired_token_raises_the_services_own_code(lab: Lab) -> None:
    with lab.fault("token-expired"):
        assert refused(caller(lab, "dynamodb"), "dynamodb") == ("ExpiredTokenException", 400)
        assert refused(caller(lab, "s3"), "s3") == ("ExpiredToken", 400)
        assert refused(caller(lab, "sts"), "sts") == ("ExpiredToken", 403)


def test_a_caller_whose_clock_is_wrong_gets_the_services_own_code(lab: Lab) -> None:
    with lab.fault("clock-moved"):
        assert refused(caller(lab, "s3"), "s3") == ("RequestTimeTooSkewed", 403)
        assert refused(caller(lab, "sts"), "sts") == ("SignatureDoesNotMatch", 403)
        assert refused(caller(lab, "dynamodb"), "dynamodb")[0] == "InvalidSignatureException"


@pytest.mark.parametrize("fault", ["token-expired", "clock-moved"])
def test_the_clock_and_the_credentials_of_aws_itself_are_right(lab: Lab, fault: str) -> None:
    with lab.fault(fault) as injected:
        caller(lab, "dynamodb", of="states.amazonaws.com").list_tables()
        assert injected.hits == 0


def test_a_hanging_call_gets_no_answer_and_ends_with_the_fault(lab: Lab) -> None:
    quick = caller(lab, "sts", read_timeout=0.3)
    with ThreadPoolExecutor() as pool:
        with lab.fault("api-hanging", on="sts") as fault:
            with pytest.raises(ReadTimeoutError):
                quick.get_caller_identity()
            waiting = pool.submit(caller(lab, "sts").get_caller_identity)
            eventually(lambda: fault.hits, lambda hits: hits == 2)
            assert not waiting.done()
        with pytest.raises(ConnectionClosedError):
            waiting.result(timeout=HUNG_SECONDS)
    caller(lab, "sts").get_caller_identity()


def test_a_call_whose_answer_is_lost_was_executed(lab: Lab) -> None:
    bucket = lab.bucket()
    client = caller(lab, "s3")
    with (
        lab.fault("api-answer-lost", on="s3:PutObject"),
        pytest.raises(ConnectionClosedError),
    ):
        client.put_object(Bucket=bucket, Key="kept", Body=b"x")
    assert client.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"x"


def test_a_cut_call_was_not_executed(lab: Lab) -> None:
    bucket = lab.bucket()
    client = caller(lab, "s3")
    with (
        lab.fault("api-cut", on="s3:Put*"),
        pytest.raises(ConnectionClosedError),
    ):
        client.put_object(Bucket=bucket, Key="lost", Body=b"x")
    assert "Contents" not in client.list_objects_v2(Bucket=bucket)


def test_a_fault_ends_at_its_time(lab: Lab) -> None:
    client = caller(lab, "dynamodb")

    def answered() -> bool:
        with contextlib.suppress(ClientError):
            client.list_tables()
            return True
        return False

    with lab.fault("api-failing", seconds=2.0):
        assert refused(client, "dynamodb")[1] == 500
        eventually(answered, bool)


def test_an_unknown_fault_or_target_is_refused(lab: Lab) -> None:
    for name, on in (("no-such", None), ("api-failing", f"no-{uuid.uuid4().hex}:Call")):
        with pytest.raises(LabError), lab.fault(name, on=on):
            pass


def test_a_disabled_key_is_reported_as_s3_and_dynamodb_do_and_by_nobody_else(lab: Lab) -> None:
    clients = {name: caller(lab, name) for name in ("s3", "dynamodb", "sts")}
    with lab.fault("key-disabled"):
        with pytest.raises(ClientError) as caught:
            clients["s3"].put_object(Bucket="b", Key="a", Body=b"x")
        assert caught.value.response["Error"]["Code"] == "KMS.DisabledException"
        with pytest.raises(ClientError, match=r"KMS key access denied .* is disabled") as caught:
            clients["dynamodb"].list_tables()
        assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
        assert clients["sts"].get_caller_identity()["Arn"]
