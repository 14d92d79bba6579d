"""Answers to CloudFormation: always exactly one, short enough, and readable."""

from __future__ import annotations

import json
import socket
import threading
import traceback

import pytest
import urllib3
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import Configuration

from rackrate.errors import ClusterUnreachable, Throttled
from rackrate.stack import custom_resource
from rackrate.stack.custom_resource import NOTHING, Answer, respond, sentences, serve
from tests.unit.stack.custom_resources import STACK_ID, Context, listener, only, request


def served(meet, *, seconds=None, **extra):
    """The responses to a request that a function meets in so many seconds."""
    context = Context() if seconds is None else Context(seconds=seconds)
    with listener() as (url, responses):
        serve(request("Create", {}, ResponseURL=url, **extra), context, meet)
    return responses


def test_a_request_that_was_met_is_answered_with_its_attributes():
    answer = only(served(lambda _: Answer("id-1", {"Colour": "red"})))
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "id-1")
    assert answer["Data"] == {"Colour": "red"}
    assert (answer["RequestId"], answer["StackId"]) == ("request", STACK_ID)
    assert answer["LogicalResourceId"] == "Thing"


@pytest.mark.parametrize(("extra", "id_"), [({}, NOTHING), ({"PhysicalResourceId": "old"}, "old")])
def test_a_failure_is_answered_in_its_own_words_and_is_no_replacement(extra, id_):
    def meet(_):
        raise RuntimeError("a bug")

    answer = only(served(meet, **extra))
    assert (answer["Status"], answer["Reason"]) == ("FAILED", "RuntimeError: a bug")
    assert answer["PhysicalResourceId"] == id_


@pytest.mark.parametrize(
    "failure",
    [
        Throttled("slow down"),
        ClusterUnreachable("no answer"),
        EndpointConnectionError(endpoint_url="https://eks"),
        ClientError({"Error": {"Code": "InternalServerError"}}, "DescribeCluster"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failure_that_passes_by_itself_is_tried_again_within_the_request(monkeypatch, failure):
    monkeypatch.setattr(custom_resource, "_FIRST_PAUSE_SECONDS", 0.01)
    failures = [failure, failure]

    def meet(_):
        if failures:
            raise failures.pop()
        return Answer("id-1")

    assert only(served(meet))["Status"] == "SUCCESS"


def test_a_failure_that_does_not_pass_in_time_is_answered(monkeypatch):
    monkeypatch.setattr(custom_resource, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(custom_resource, "_RESERVE_SECONDS", 5.0)

    def meet(_):
        raise Throttled("slow down")

    response = only(served(meet, seconds=7.2))
    assert (response["Status"], response["Reason"]) == ("FAILED", "Throttled: slow down")


def test_a_mistake_of_the_user_is_answered_at_once():
    calls = []

    def meet(event):
        calls.append(event)
        raise ClientError({"Error": {"Code": "ValidationException"}}, "DescribeCluster")

    assert (only(served(meet))["Status"], len(calls)) == ("FAILED", 1)


def test_a_function_whose_time_is_up_answers_once(monkeypatch):
    monkeypatch.setattr(custom_resource, "_RESERVE_SECONDS", 5.0)
    answered = threading.Event()
    tell = custom_resource.respond

    def respond_and_say_so(*arguments, **more):
        tell(*arguments, **more)
        answered.set()

    monkeypatch.setattr(custom_resource, "respond", respond_and_say_so)

    def meet(_):
        assert answered.wait(20), "nobody answered in time"
        return Answer("too late")

    response = only(served(meet, seconds=1.05))
    assert response["Status"] == "FAILED"
    assert "out of time" in response["Reason"]


def test_a_request_that_is_answered_later_is_not_answered_now():
    assert served(lambda _: None) == []


def test_lambda_hears_of_an_answer_that_was_not_taken():
    with listener(status=403) as (url, _), pytest.raises(RuntimeError, match="403"):
        serve(request("Create", {}, ResponseURL=url), Context(), lambda _: Answer("id"))


def test_several_lines_become_numbered_sentences_and_one_stays_as_it_is():
    assert sentences("a: is wrong; mend it\n\nb: too.\n") == "(1) a: is wrong; mend it. (2) b: too."
    assert sentences("the cluster is gone\n") == "the cluster is gone"
    assert sentences("") == ""


@given(st.text(max_size=6000))
def test_an_answer_is_never_longer_than_cloudformation_takes(text):
    sent = []
    with pytest.MonkeyPatch.context() as patch:
        reply = type("Reply", (), {"status": 200})()
        patch.setattr(
            custom_resource.urllib3,
            "request",
            lambda *_, body, **__: (sent.append(body), reply)[1],
        )
        respond({**request("Create", {}), "ResponseURL": "http://x"}, error=text)
    assert len(sent[0].encode()) <= 4096
    reason = json.loads(sent[0])["Reason"]
    assert (text or "unknown").startswith(reason.removesuffix(" [...]"))
    if reason == (text or "unknown"):
        return
    assert len(sent[0].encode()) > 4096 - 24, "cut more than needed"


def test_attributes_that_do_not_fit_are_an_error_and_not_a_broken_answer():
    with pytest.raises(ValueError, match="longer than CloudFormation takes"):
        respond(
            request("Create", {}, ResponseURL="http://x"), answer=Answer("a", {"b": "c" * 5000})
        )


def test_no_log_and_no_error_has_the_url_with_which_anybody_can_answer(caplog, monkeypatch):
    """CloudFormation signs it, and takes whatever comes by it as the answer."""
    monkeypatch.setattr(custom_resource, "_RETRIES", urllib3.Retry(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/answer?Signature=secret"
    event = request("Create", {}, ResponseURL=url)
    with caplog.at_level("DEBUG"), pytest.raises(RuntimeError) as caught:
        Configuration()  # sets the level of urllib3, as a bootstrap does
        serve(event, Context(), lambda request: Answer("id"))
    logged = " ".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "secret" not in logged + "".join(traceback.format_exception(caught.value))
