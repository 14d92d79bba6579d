"""`rackrate up` and `down` leave stacks of others alone, and ask before they replace their own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rackrate_cli.deploying.change_sets import ChangeSet
from rackrate_cli.deploying.deployment import Deployment

from lab.aws.iam.identity import assume_role
from lab.stack import REPOSITORY
from lab.tests.aws.region import Lab, allow
from tests.lab_aws.conftest import INNER, Rackrate, buckets_of

pytestmark = pytest.mark.rest

BUCKET = "Resources: {Bucket: {Type: AWS::S3::Bucket}}"
BROKEN = "Resources: {Group: {Type: AWS::EC2::PlacementGroup, Properties: {Strategy: wrong}}}"


def _created(lab: Lab, name: str) -> str:
    return str(lab.stack(BUCKET, StackName=name)["StackId"])


def _rolled_back(lab: Lab, name: str) -> str:
    stack = lab.stack(BROKEN, StackName=name)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    return str(stack["StackId"])


def _undeletable(lab: Lab, name: str) -> str:
    stack_id = _created(lab, name)
    lab.client("s3").put_object(
        Bucket=lab.resources(stack_id)["Bucket"], Key="theirs", Body=b"theirs"
    )
    assert lab.delete(stack_id)["StackStatus"] == "DELETE_FAILED"
    return stack_id


def _under_review(lab: Lab, name: str) -> str:
    return str(
        lab.client("cloudformation").create_change_set(
            StackName=name, ChangeSetName="theirs", ChangeSetType="CREATE", TemplateBody=BUCKET
        )["StackId"]
    )


def _events(lab: Lab, stack_id: str) -> int:
    return len(
        lab.client("cloudformation").describe_stack_events(StackName=stack_id)["StackEvents"]
    )


def _change_sets(lab: Lab, stack: str) -> list[str]:
    summaries = lab.client("cloudformation").list_change_sets(StackName=stack)["Summaries"]
    return [
        each["ChangeSetName"] for each in summaries if each["ExecutionStatus"] != "EXECUTE_COMPLETE"
    ]


@pytest.mark.parametrize("make", [_created, _rolled_back, _undeletable, _under_review])
def test_a_stack_of_others_is_neither_updated_nor_deleted(
    lab: Lab,
    release: Path,
    name: str,
    rackrate: Rackrate,
    make: Callable[[Lab, str], str],
) -> None:
    stack_id = make(lab, name)
    buckets, events = buckets_of(lab), _events(lab, stack_id)
    for command in (
        ("up", "--stack", name, "--release", release, "--yes"),
        ("down", "--stack", name, "--yes", "--remove-leftovers"),
    ):
        done = rackrate(*command)
        assert (done.exit_code, "--stack" in done.stderr) == (2, True), done.output
    assert _events(lab, stack_id) == events
    assert buckets_of(lab) == buckets, "nothing is uploaded for it"


@pytest.fixture
def own(lab: Lab, release: Path, name: str, rackrate: Rackrate) -> Iterator[str]:
    """The name of a stack that `up` made."""
    done = rackrate("up", "--stack", name, "--release", release)
    assert done.exit_code == 0, done.output
    yield name
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0


def _answer(monkeypatch: pytest.MonkeyPatch, confirm: Callable[..., bool]) -> None:
    """Let a terminal answer questions so."""
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("rackrate_cli.options.sys", terminal)
    monkeypatch.setattr("rackrate_cli.options.typer.confirm", confirm)


def _groups(lab: Lab, name: str) -> set[str]:
    groups = lab.client("ec2").describe_placement_groups()["PlacementGroups"]
    return {each["GroupName"] for each in groups if each["GroupName"].startswith(name)}


def test_a_stack_inside_a_stack_is_not_deleted_alone(
    lab: Lab, own: str, release: Path, rackrate: Rackrate
) -> None:
    inner = lab.resources(own)["Inner"].split("/")[1]
    for command in (("up", "--release", release, "--yes"), ("down", "--yes")):
        assert rackrate(*command, "--stack", inner).exit_code == 2
    assert _groups(lab, own)


def test_a_stack_from_before_the_mark_is_known_by_a_nested_stack_also_when_it_failed(
    lab: Lab, name: str, rackrate: Rackrate
) -> None:
    bucket = lab.stored("leaf", INNER)
    stack = lab.stack(
        f"""
        Resources:
          PreflightFunction:
            Type: AWS::CloudFormation::Stack
            Properties: {{TemplateURL: "{lab.region.endpoint_url}/{bucket}/leaf"}}
          Group:
            Type: AWS::EC2::PlacementGroup
            DependsOn: PreflightFunction
            Properties: {{Strategy: wrong}}
        """,
        StackName=name,
    )
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0
    assert rackrate("down", "--stack", name, "--yes").exit_code == 2


def test_a_release_that_is_not_rackrates_makes_no_stack(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    _edit(release, "rackrate.template", "Metadata: { rackrate.dev/template: stack }\n", "")
    done = rackrate("up", "--stack", name, "--release", release)
    assert (done.exit_code, "--release" in done.stderr) == (2, True), done.output
    assert rackrate("down", "--stack", name).exit_code == 0, "only the bucket is there"


def _edit(release: Path, file: str, old: str, new: str) -> None:
    """Edit a file of a release as a new package of it: templates are named by their content."""
    path, root = release / file, release / "rackrate.template"
    path.write_text(path.read_text().replace(old, new))
    if path != root:
        renamed = path.with_name(f"{hashlib.sha256(path.read_bytes()).hexdigest()}.template")
        path.rename(renamed)
        root.write_text(root.read_text().replace(file, renamed.name))
    files = [each for each in release.iterdir() if each.name != "SHA256SUMS"]
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (release / "SHA256SUMS").write_text("".join(sums))


def test_up_names_what_it_would_replace_in_nested_stacks_and_goes_on_only_if_told(
    lab: Lab, own: str, release: Path, rackrate: Rackrate
) -> None:
    before = _groups(lab, own)
    change = ("up", "--stack", own, "--release", release, "--set", "Strategy=spread")
    result = rackrate(*change)
    assert result.exit_code == 2, result.output
    assert "replaced: Inner/Group (AWS::EC2::PlacementGroup)" in " ".join(result.stderr.split())
    assert "--yes" in result.stderr
    assert (_groups(lab, own), _change_sets(lab, own)) == (before, [])
    done = rackrate(*change, "--yes")
    assert done.exit_code == 0, done.output
    assert not _groups(lab, own) & before


def test_up_names_what_a_release_would_delete_and_no_harmless_change(
    lab: Lab, own: str, release: Path, rackrate: Rackrate
) -> None:
    log = "  Log:\n    Type: AWS::Logs::LogGroup\n    Metadata: { For: !Ref Group }\n"
    topic = "  Topic:\n    Type: AWS::SNS::Topic\n    Properties:\n      DisplayName: "
    _edit(release, "inner.template", f"{log}{topic}published", f"{topic}other")
    result = rackrate("up", "--stack", own, "--release", release)
    assert result.exit_code == 2, result.output
    assert "deleted: Inner/Log (AWS::Logs::LogGroup)" in " ".join(result.stderr.split())
    assert "Topic" not in result.stderr


def test_up_does_not_ask_about_a_change_that_replaces_nothing(
    lab: Lab, own: str, release: Path, rackrate: Rackrate
) -> None:
    _edit(release, "inner.template", "DisplayName: published", "DisplayName: other")
    done = rackrate("up", "--stack", own, "--release", release, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["status"] == "UPDATE_COMPLETE"


@pytest.mark.parametrize(("reply", "code"), [(False, 2), (KeyboardInterrupt, 130)])
def test_a_change_set_that_is_not_executed_is_deleted(
    lab: Lab,
    own: str,
    release: Path,
    rackrate: Rackrate,
    monkeypatch: pytest.MonkeyPatch,
    reply: Any,
    code: int,
) -> None:
    seen = []

    def confirm(question: str, **_: object) -> bool:
        seen.append(_change_sets(lab, own))
        if reply is KeyboardInterrupt:
            raise KeyboardInterrupt
        return bool(reply)

    _answer(monkeypatch, confirm)
    before = _groups(lab, own)
    done = rackrate("up", "--stack", own, "--release", release, "--set", "Strategy=spread")
    assert done.exit_code == code, done.output
    assert len(seen) == 1 and len(seen[0]) == 1
    assert (_groups(lab, own), _change_sets(lab, own)) == (before, [])


def test_an_interrupt_while_the_change_set_is_made_leaves_none(
    lab: Lab, own: str, release: Path, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter([KeyboardInterrupt])
    wait = ChangeSet._failure

    def interrupted(change_set: ChangeSet) -> str:
        if raised := next(waits, None):
            raise raised
        return wait(change_set)

    monkeypatch.setattr(ChangeSet, "_failure", interrupted)
    done = rackrate("up", "--stack", own, "--release", release, "--set", "Strategy=spread")
    assert done.exit_code == 130, done.output
    assert _change_sets(lab, own) == []


def test_up_says_what_it_cannot_see_when_nested_stacks_have_no_change_set(
    lab: Lab, own: str, release: Path, rackrate: Rackrate
) -> None:
    """aws-cloudformation/cloudformation-coverage-roadmap#759"""
    part = "DisplayName: !Select [9, !Split ['-', !Ref Strategy]]"
    _edit(release, "inner.template", "DisplayName: published", part)
    result = rackrate("up", "--stack", own, "--release", release)
    assert result.exit_code == 2, result.output
    assert "perhaps replaced in the stack itself: Inner" in " ".join(result.stderr.split())
    assert _change_sets(lab, own) == []


def test_a_stack_that_somebody_updates_meanwhile_is_not_updated_over_it(
    lab: Lab, own: str, release: Path, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirm(question: str, **_: object) -> bool:
        return lab.update(own, parameters={"NodeCount": "7"}) == "UPDATE_COMPLETE"

    _answer(monkeypatch, confirm)
    before = _groups(lab, own)
    done = rackrate("up", "--stack", own, "--release", release, "--set", "Strategy=spread")
    assert (done.exit_code, "again" in done.stderr) == (1, True), done.output
    assert _groups(lab, own) == before


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("ROLLBACK_FAILED", "rackrate down"),
        ("DELETE_FAILED", "rackrate down"),
        ("DELETE_IN_PROGRESS", "rackrate down"),
        ("UPDATE_ROLLBACK_FAILED", "continue its rollback"),
    ],
)
def test_up_does_not_touch_a_stack_that_cannot_be_updated(
    lab: Lab,
    own: str,
    release: Path,
    rackrate: Rackrate,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    remedy: str,
) -> None:
    events = _events(lab, own)
    with monkeypatch.context() as patched:
        patched.setattr(Deployment, "status", status)
        done = rackrate("up", "--stack", own, "--release", release, "--yes")
    assert (done.exit_code, status in done.stderr, remedy in done.stderr) == (1, True, True)
    assert (_events(lab, own), _change_sets(lab, own)) == (events, [])


def test_the_documented_rights_are_enough_for_an_update(
    lab: Lab, own: str, release: Path, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (REPOSITORY / "docs" / "cli.md").read_text()
    paragraph = text.partition("your credentials need these for `up`")[2].partition("\n\n")[0]
    actions = [
        f"cloudformation:{name}"
        for name in re.findall(r"`(?:cloudformation:)?([A-Z]\w+)`", paragraph)
    ]
    stacks = f"arn:aws:cloudformation:us-east-1:123456789012:stack/{own}"
    role = lab.role(
        "ec2.amazonaws.com",
        allow(actions, [f"{stacks}/*", f"{stacks}-*"]),
        allow(["cloudformation:GetTemplateSummary", "s3:*", "sts:GetCallerIdentity"], "*"),
    )
    keys = assume_role(role, "test")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys.secret_access_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", keys.session_token)
    change = ("up", "--stack", own, "--release", release, "--set", "Strategy=spread")
    done = rackrate(*change, "--yes")
    assert done.exit_code == 0, done.output
    lab.permit(role, allow("cloudformation:Describe*", "*"))
    denied = rackrate(*change, "--yes")
    assert (denied.exit_code, "cloudformation:GetTemplateSummary" in denied.stderr) == (2, True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lab.region.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lab.region.secret_access_key)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
