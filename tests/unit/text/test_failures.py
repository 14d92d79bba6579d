"""Errors become one sentence, and equal causes are counted once."""

from __future__ import annotations

import json

import pytest

from rackrate.results.build import RunFailure
from rackrate_text.failures import explain, grouped, lines_of, place, without_ids
from rackrate_text.names import is_id
from rackrate_text.printable import printable

REQUEST = "8e3f1111-2222-3333-4444-555566667777"
OTHER = "0a9b1111-2222-3333-4444-555566667778"
DENIED = (
    "An error occurred (AccessDeniedException) when calling the GetItem operation: User:"
    " arn:aws:sts::123456789012:assumed-role/rackrate-FinishRole-AB/finish is not authorized to"
    " perform: dynamodb:GetItem on resource: arn:aws:dynamodb:us-east-1:123456789012:table/t"
)


def document(error: str, message: str, **more: object) -> str:
    return json.dumps({"errorType": error, "errorMessage": message, **more})


def crash(request: str) -> str:
    message = f"RequestId: {request} Error: Runtime exited with error: exit status 1"
    return document("Runtime.ExitError", message)


def killed(request: str) -> str:
    message = f"RequestId: {request} Error: Runtime exited with error: signal: killed"
    return document("Runtime.ExitError", message)


ERRORS = {
    "crash": ("Runtime.ExitError", crash(REQUEST), "crashed"),
    "memory": ("Runtime.ExitError", killed(REQUEST), "out of memory"),
    "time": (
        "Sandbox.Timedout",
        document("Sandbox.Timedout", f"RequestId: {REQUEST} Error: Task timed out after 90.00 s"),
        "ran out of time",
    ),
    "state": ("States.Timeout", "", "longer than it may"),
    "reader": ("States.ItemReaderFailed", "Access denied", "schedule"),
    "items": ("States.ExceedToleratedFailureThreshold", "The threshold was exceeded", "items"),
    "states": ("States.Runtime", "The path '$.x' was not found", "Step Functions"),
    "lambda": ("Lambda.ServiceException", "Service unavailable", "Lambda itself"),
    "throttle": ("Lambda.TooManyRequestsException", "Rate Exceeded.", "capacity"),
    "denied": (
        "ClientError",
        document("ClientError", DENIED, requestId=REQUEST, stackTrace=["  File x"]),
        "rackrate-FinishRole-AB may not dynamodb:GetItem",
    ),
    "key": (
        "ClientError",
        document(
            "ClientError",
            "An error occurred (KMS.DisabledException) when calling the PutObject operation:"
            " arn:aws:kms:us-east-1:123456789012:key/x is disabled.",
        ),
        "encryption key",
    ),
    "unknown": ("KeyError", document("KeyError", "'nodes'", stackTrace=["  File x"]), "KeyError"),
    "nothing": ("Odd", "", "Odd"),
}


def sentence(error: str, cause: str) -> str:
    return RunFailure(error, cause).sentence(
        subject="The run",
        during="starting servers",
        measured="4 of 24 trials were measured",
        log_group="/rackrate",
    )


@pytest.mark.parametrize(("error", "cause", "why"), ERRORS.values(), ids=ERRORS)
def test_every_error_is_told_with_place_reason_loss_and_remedy_and_without_a_document(
    error: str, cause: str, why: str
) -> None:
    text = sentence(error, cause)
    assert why in text
    assert "starting servers" in text, "where"
    assert "4 of 24 trials were measured" in text, "how much"
    assert "details: log group /rackrate" in text, "where its log is"
    assert not {*'{}"'} & {*text.replace('"starting servers"', "")}, "no document"
    assert "stackTrace" not in text
    assert "\n" not in text
    assert text.count(REQUEST) == (REQUEST in cause), "once, to find the log"


def test_a_stack_trace_gives_the_name_of_the_step() -> None:
    trace = ['  File "/var/task/handlers/await_servers.py", line 12, in handler\n']
    text = sentence("KeyError", document("KeyError", "'x'", stackTrace=trace))
    assert "in the step await servers" in text


def test_our_own_error_says_itself_what_failed_and_needs_no_log() -> None:
    text = sentence("ServersNotReady", document("ServersNotReady", "no server on node-1"))
    assert text == "no server on node-1; 4 of 24 trials were measured."


def test_a_refused_plan_is_a_line_for_each_mistake_and_nothing_else() -> None:
    lines = "blocks: is 0; use 1\narms: are none; name some"
    assert sentence("InvalidPlan", document("InvalidPlan", lines)) == lines


def test_the_error_of_a_child_execution_is_told_as_its_own() -> None:
    inner = document("NodesUnavailable", "3 of 4 nodes are Ready")
    child = json.dumps({"Error": "NodesUnavailable", "Cause": inner, "Status": "FAILED"})
    assert RunFailure("States.TaskFailed", child).text == "NodesUnavailable: 3 of 4 nodes are Ready"


def test_equal_causes_count_once_whatever_their_ids() -> None:
    reasons = [
        *(explain("Runtime.ExitError", crash(each)).text for each in (REQUEST, OTHER)),
        f"the pod run-0a1b2c3d4e-1-2-abcdef0123-1 at 10.0.0.{7}:5201 is gone (RequestId: {OTHER})",
        f"the pod run-0a1b2c3d4e-2-1-fedcba3210-1 at 10.0.1.9:41523 is gone (RequestId: {REQUEST})",
    ]
    assert [loss.count for loss in grouped((reason, "") for reason in reasons)] == [2, 2]


def test_a_cause_tells_how_many_trials_it_cost_and_where() -> None:
    reasons = [("no answer", place("a", f"n{n}", "m")) for n in (1, 1, 2, 3)]
    often, once = grouped([("never ran", ""), *reasons])
    assert often.of_trials == "4 trials (a, n1 → m; a, n2 → m; 1 more): no answer"
    assert once.of_trials == "1 trial: never ran"
    assert often.where == ("a, n1 → m", "a, n2 → m", "a, n3 → m"), "each place once"


@pytest.mark.parametrize(
    "name",
    ["ip-10-0-1-2.ec2.internal", "i-0abcdef1234567890.ec2.internal", "rackrate-t-1", "tcp-8"],
)
def test_causes_on_different_nodes_stay_apart(name: str) -> None:
    assert without_ids(f"the server on {name} did not answer").count(name) == 1


def test_a_carriage_return_cannot_overwrite_the_line() -> None:
    assert printable("lost\rfine\r\nnext\tcell") == "lost\nfine\nnext\tcell"


def test_a_message_in_lambdas_document_is_plain_too() -> None:
    assert lines_of(document("TrialsLost", "one\x1b[2J\n\ntwo")) == ["one", "two"]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b", "-x", "", "a" * 81, "a\n", "é", "a.b"])
def test_no_id_leads_out_of_its_directory(name: str) -> None:
    assert not is_id(name)


def test_names_that_the_console_and_the_command_make_are_ids() -> None:
    assert is_id(REQUEST)
    assert is_id("run-20261120-090000-ab12")
