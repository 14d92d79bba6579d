"""A check and its finding. Errors become findings: a check without permission is `unknown`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from ..errors import (
    EXIT_USAGE,
    PERMISSION_CODES,
    UNREADABLE,
    Refusal,
    error_code,
    error_message,
    explain,
)
from ..patience import brief

_LONGEST = 160

type State = Literal["ok", "warning", "failed", "unknown"]

# AWS writes "... is not authorized to perform: eks:DescribeCluster on resource: ...".
_ACTION = re.compile(r"perform(?:ing)?:? ([a-z0-9-]+:[A-Za-z]+)")


@dataclass(frozen=True)
class Check:
    """One finding. `remedy` says what to do. It is empty when there is nothing to do."""

    name: str
    state: State
    finding: str
    remedy: str = ""

    def as_json(self) -> dict[str, str | None]:
        """The finding for a program; null where there is nothing to do."""
        return {
            "check": self.name,
            "state": self.state,
            "found": self.finding,
            "remedy": self.remedy or None,
        }


class MissingValue(Exception):
    """The stack lacks an output or parameter that a check needs (a stack of another version)."""


def required(values: Mapping[str, str], name: str) -> str:
    """A stack's output or parameter. Raises MissingValue when the stack has none of that name."""
    if name not in values:
        raise MissingValue(f"the stack has no value {name}")
    return values[name]


def look(name: str, check: Callable[[], Check | Iterable[Check]]) -> list[Check]:
    """Run a check. An error becomes a finding under `name`. The calls are not patient."""
    try:
        with brief():
            result = check()
            return [result] if isinstance(result, Check) else list(result)
    except MissingValue as missing:
        return [Check(name, "unknown", str(missing), "deploy this version of rackrate")]
    except ClientError as error:
        if error_code(error) in PERMISSION_CODES:
            action = forbidden_action(error)
            return [
                Check(
                    name,
                    "unknown",
                    f"these credentials may not call {action}",
                    "allow it, or use a role that may",
                )
            ]
        explained = explain(error)
        if explained.exit_code == EXIT_USAGE:  # the credentials
            return [failed(name, explained)]
        message = f"{error.operation_name} answers {error_code(error)}: {error_message(error)}"
        return [Check(name, "unknown", shorten(message, _LONGEST))]
    except ResponseParserError:
        # For example the page of a proxy or of an emulator.
        return [Check(name, "unknown", "what answers in AWS's place cannot be understood")]
    except (Refusal, BotoCoreError, OSError, *UNREADABLE) as error:
        return [failed(name, explain(error))]


def forbidden_action(error: ClientError) -> str:
    """The IAM action that a denied call needs, or else the name of the call."""
    named = _ACTION.search(error_message(error))
    return named[1] if named else error.operation_name


def failed(name: str, refusal: Refusal) -> Check:
    """Turn a refusal into a finding. Its message has the form "what; remedy."."""
    what, _, remedy = _sentence(refusal).partition("; ")
    return Check(name, "failed", what, remedy)


def _sentence(error: Exception) -> str:
    return str(error).rstrip(".")
