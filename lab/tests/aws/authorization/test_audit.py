"""The audit of policies against calls: denied calls, unused permissions, useless exceptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.aws.authorization.audit import Audit, Call, audit, read_unobserved, rows

POLICIES: dict[str, list[dict[str, Any]]] = {
    "Benchmark/PlanRole": [
        {"Effect": "Allow", "Action": ["s3:GetObject", "xray:PutTraceSegments"], "Resource": "*"},
        {"Effect": "Allow", "Action": "dynamodb:Put*", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"},
    ]
}


READ = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:GetObject", "arn:aws:s3:::b/k", True)


WRITE = Call("s-PlanRole-1", "Benchmark/PlanRole", "dynamodb:PutItem", "t", True)


REFUSED = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:PutObject", "arn:aws:s3:::b/k", False)


TRACING = {"*": {"xray:PutTraceSegments": "the Lambda service sends traces"}}


def test_the_audit_is_empty_when_policies_and_calls_agree() -> None:
    assert audit(POLICIES, [READ, WRITE], TRACING) == Audit((), (), ())


def test_the_audit_finds_what_is_refused_unused_and_listed_in_vain() -> None:
    role = "Benchmark/PlanRole"
    result = audit(POLICIES, [READ, REFUSED], {})
    assert result.refused == (REFUSED,)
    assert result.unused == ((role, "dynamodb:Put*"), (role, "xray:PutTraceSegments"))
    listed = {"PlanRole": {"s3:GetObject": "used after all"}, "*": {"sqs:SendMessage": "gone"}}
    result = audit(POLICIES, [READ, WRITE], {**listed, role: TRACING["*"]})
    assert result.unused == ()
    assert result.stale == (("*", "sqs:SendMessage"), ("PlanRole", "s3:GetObject"))


def test_a_refused_call_does_not_count_as_use() -> None:
    policies = {"Role": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "x"}]}
    call = Call("r", "Role", "s3:PutObject", "y", allowed=False)
    assert audit(policies, [call], {}).unused == (("Role", "s3:PutObject"),)


def test_a_listed_action_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "unused.yaml"
    file.write_text("PlanRole:\n  xray:PutTraceSegments: the Lambda service sends traces\n")
    assert read_unobserved(file) == {
        "PlanRole": {"xray:PutTraceSegments": "the Lambda service sends traces"}
    }
    file.write_text("PlanRole:\n  xray:PutTraceSegments:\n")
    with pytest.raises(ValueError, match="PlanRole: each action needs a reason"):
        read_unobserved(file)


def test_the_table_shows_each_allowed_action_and_each_refusal() -> None:
    second = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:GetObject", "arn:aws:s3:::b/l", True)
    assert rows(POLICIES, [READ, second, REFUSED]) == [
        ("Benchmark/PlanRole", "dynamodb:Put*", "not used", ""),
        ("Benchmark/PlanRole", "s3:GetObject", "used", "arn:aws:s3:::b/k and 1 more"),
        ("Benchmark/PlanRole", "s3:PutObject", "REFUSED", "arn:aws:s3:::b/k"),
        ("Benchmark/PlanRole", "xray:PutTraceSegments", "not used", ""),
    ]
