"""Create, change and delete the stack by CloudFormation alone, and follow what it does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from rackrate_text.words import counted, listed, nearest

from ..errors import EXIT_FAILED, EXIT_UNKNOWN, Refusal, explain, is_temporary, unless_missing
from ..following.watch import OFFLINE_SECONDS
from ..printing.progress import Display
from ..reading.stack import client_of, describe, paginated, values_of
from .change_sets import STACK_TYPE, ChangeSet

#: The stack of a command without --stack.
DEFAULT_STACK = "rackrate"
#: IAM for the roles; AUTO_EXPAND because the nested stacks use the serverless transform.
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
#: The key in the metadata of the root template by which the command knows its stacks.
_MARK = "rackrate.dev/template"
#: A nested stack that stacks from before the mark have, also those that failed.
_FIRST_PART = "PreflightFunction"
_POLL_SECONDS = 2.0
_NAMED = 3
_BEGINNINGS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
#: What a status says that CloudFormation does, the more specific first.
_VERBS = (
    ("CLEANUP", "removing what is replaced"),
    ("ROLLBACK", "rolling back"),
    ("CREATE", "creating"),
    ("UPDATE", "updating"),
    ("DELETE", "deleting"),
    ("", "working"),
)
#: What to do about a status, the more specific first.
_REMEDIES = (
    ("UPDATE_ROLLBACK_COMPLETE", "it is as it was before; correct this and try again"),
    ("UPDATE", "correct this, and continue its rollback in CloudFormation's console"),
    ("DELETE", "correct this and run `{down}` again"),
    ("", "correct this, remove the stack with `{down}`, and try again"),
)
#: Why a change set fails that would change nothing.
_UNCHANGED = ("didn't contain changes", "No updates are to be performed")
#: What CloudFormation says of resources that failed only because another did.
_CANCELLED = "cancelled"


class Deployment:
    """A stack as CloudFormation sees it, whether it exists or not.

    `description` is that of `DescribeStacks`, or None. Errors of AWS are botocore's.
    """

    def __init__(self, name: str, session: boto3.Session) -> None:
        self.name = name
        self._client = client_of(session, "cloudformation")
        self.description = describe(self._client, name)

    @property
    def status(self) -> str:
        """CloudFormation's status; empty without a stack."""
        return str(self.description["StackStatus"]) if self.description else ""

    @property
    def is_working(self) -> bool:
        """Whether CloudFormation is at work on it."""
        # A change set that nobody executed leaves a stack under review, at which nothing works.
        return self.status.endswith("_IN_PROGRESS") and not self.status.startswith("REVIEW")

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs by name."""
        return values_of(self.description or {}, "Output")

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters by name."""
        return values_of(self.description or {}, "Parameter")

    def create(self, url: str, parameters: Mapping[str, str]) -> None:
        """Begin to create the stack from its root template's URL."""
        self._template_parameters(parameters, url)
        self._client.create_stack(
            StackName=self.name,
            TemplateURL=url,
            Capabilities=_CAPABILITIES,
            Parameters=_listed(parameters),
        )
        self.description = describe(self._client, self.name)

    @contextmanager
    def proposed(self, url: str, parameters: Mapping[str, str]) -> Iterator[ChangeSet | None]:
        """What an update would change, for the caller to execute; None if nothing changes.

        Other parameters stay. The change set is deleted afterwards unless it was executed.
        """
        names = self._template_parameters(parameters, url)
        unchanged = names & self.parameters.keys() - parameters.keys()
        previous = [{"ParameterKey": name, "UsePreviousValue": True} for name in sorted(unchanged)]
        reason = ""
        # A value that only the update knows can fail those of nested stacks, and not the update
        # (aws-cloudformation/cloudformation-coverage-roadmap#759).
        for includes_nested in (True, False):
            change_set = ChangeSet(self._client, self._id)
            try:
                reason = change_set.create(
                    TemplateURL=url,
                    Capabilities=_CAPABILITIES,
                    Parameters=[*_listed(parameters), *previous],
                    IncludeNestedStacks=includes_nested,
                )
                if not reason or any(each in reason for each in _UNCHANGED):
                    yield None if reason else change_set
                    return
            finally:
                change_set.delete()
        raise Refusal(
            f"CloudFormation cannot determine what changes ({reason}); correct this and try again.",
            EXIT_FAILED,
        )

    def check_owner(self) -> None:
        """Raise Refusal for a stack that exists and is not rackrate's, or is a part of one."""
        if self.description is not None and not self._is_ours():
            raise Refusal(
                f'The stack "{self.name}" ({self.status}) does not carry rackrate\'s mark, so it is'
                " left alone; name another with --stack, or change it in CloudFormation yourself."
            )

    def _is_ours(self) -> bool:
        if "ParentId" in (self.description or {}):
            return False
        summarize = self._client.get_template_summary
        summary = unless_missing(summarize, "ValidationError", StackName=self._id)
        if summary is None:
            return False  # under review, so it has no template yet
        return _MARK in summary.get("Metadata", "") or any(
            (each["LogicalResourceId"], each["ResourceType"]) == (_FIRST_PART, STACK_TYPE)
            for each in self._pages("list_stack_resources", "StackResourceSummaries")
        )

    def delete(self) -> None:
        """Begin to delete the stack."""
        self._client.delete_stack(StackName=self._id)
        self._look()

    def resources(self, stack: str | None = None) -> Iterator[Any]:
        """The resources of the stack and of the stacks in it, also those that are deleted.

        CloudFormation lists those of a deleted stack for 90 days (ListStackResources).
        """
        for each in self._pages("list_stack_resources", "StackResourceSummaries", stack):
            yield each
            if each["ResourceType"] == STACK_TYPE and (inner := each.get("PhysicalResourceId")):
                yield from self.resources(inner)

    def _template_parameters(self, parameters: Mapping[str, str], url: str) -> set[str]:
        """The template's parameters. Raises Refusal for another's template or parameter."""
        summary = self._client.get_template_summary(TemplateURL=url)
        if _MARK not in summary.get("Metadata", ""):
            raise Refusal(
                "The release's template does not have rackrate's mark; write the release again, or"
                " correct --release."
            )
        names = {each["ParameterKey"] for each in summary["Parameters"]}
        if unknown := sorted(parameters.keys() - names):
            raise Refusal(
                f"The stack has no parameter {listed(f'{n}{nearest(n, names)}' for n in unknown)};"
                f" its parameters are {', '.join(sorted(names))}."
            )
        return names

    @property
    def _id(self) -> str:
        # After its deletion a stack is found by its id alone.
        return str((self.description or {})["StackId"])

    def _look(self) -> None:
        self.description = describe(self._client, self._id)

    def follow(self, display: Display) -> None:
        """Wait until CloudFormation has ended its work, and show what it does."""
        began = heard = time.monotonic()
        with display:
            while True:
                try:
                    self._look()
                    if not self.is_working:
                        return
                    progress = self._working()
                    heard = time.monotonic()
                except (BotoCoreError, ClientError) as error:
                    if not is_temporary(error) or time.monotonic() - heard > OFFLINE_SECONDS:
                        raise Refusal(
                            f'The stack "{self.name}" can no longer be followed; CloudFormation'
                            f" goes on, and the same command follows it again: {explain(error)}",
                            EXIT_UNKNOWN,
                        ) from error
                    progress = "no answer from AWS, which goes on"
                display.show(progress, time.monotonic() - began, None)
                time.sleep(_POLL_SECONDS)

    def _working(self) -> str:
        verb = next(verb for part, verb in _VERBS if part in self.status)
        resources = list(self._pages("list_stack_resources", "StackResourceSummaries"))
        busy = [
            each["LogicalResourceId"]
            for each in resources
            if each["ResourceStatus"].endswith("IN_PROGRESS")
        ]
        names = f": {listed(busy, most=_NAMED)}" if busy else ""
        return f"{verb}, {counted(len(resources) - len(busy), 'part')} done{names}"

    def _pages(self, operation: str, key: str, stack: str | None = None) -> Iterator[Any]:
        return paginated(self._client, operation, key, StackName=stack or self._id)

    def check(self, *good: str) -> None:
        """Raise Refusal, with the reasons of what failed, unless the work ended so."""
        if self.status in good:
            return
        reasons = list(dict.fromkeys(self._reasons(self._id)))
        because = "; ".join(reasons) or str((self.description or {}).get("StackStatusReason", ""))
        remedy = next(remedy for part, remedy in _REMEDIES if part in self.status)
        remedy = remedy.format(down=command("down", self.name))
        raise Refusal(
            f'The stack "{self.name}" is {self.status} ({because or "no reason given"}); {remedy}.',
            EXIT_FAILED,
        )

    def _reasons(self, stack: str, since: datetime | None = None) -> Iterator[str]:
        """Why parts failed in the last operation, in the words of the innermost, oldest first.

        `since` is when it began; None for the stack itself, whose events show it.
        """
        latest = []
        for event in self._pages("describe_stack_events", "StackEvents", stack):
            if since is not None and event["Timestamp"] < since:
                break
            latest.append(event)
            is_own = event.get("PhysicalResourceId") == stack
            if since is None and is_own and event["ResourceStatus"] in _BEGINNINGS:
                since = event["Timestamp"]
                break
        for event in reversed(latest):
            reason = _plain(str(event.get("ResourceStatusReason", "")))
            inner = str(event.get("PhysicalResourceId", ""))
            if not event["ResourceStatus"].endswith("_FAILED") or inner == stack:
                continue
            if event["ResourceType"] == STACK_TYPE and inner:
                deeper = list(self._reasons(inner, since))
                yield from deeper or [f"{event['LogicalResourceId']}: {reason}"]
            elif _CANCELLED not in reason:
                yield f"{event['LogicalResourceId']}: {reason}"


def command(verb: str, stack: str) -> str:
    """The command line of a command for a stack, such as `rackrate down --stack mine`."""
    return f"rackrate {verb}" + ("" if stack == DEFAULT_STACK else f" --stack {stack}")


def _plain(reason: str) -> str:
    """A reason without what CloudFormation writes around the message of a custom resource."""
    _, _, message = reason.rpartition("Message returned: ")
    return re.sub(r" \(RequestId: [^()]*\)$", "", message).rstrip(".")


def _listed(parameters: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
