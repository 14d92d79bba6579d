"""A check and what it found; a check that may not be made is unknown, never a crash."""

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
    Refusal,
    error_code,
    error_message,
    explain,
)

_LONGEST = 160

type State = Literal["ok", "warning", "failed", "unknown"]

# AWS writes "... is not authorized to perform: eks:DescribeCluster on resource: ...".
_ACTION = re.compile(r"perform(?:ing)?:? ([a-z0-9-]+:[A-Za-z]+)")


@dataclass(frozen=True)
class Check:
    """One finding. `remedy` says what to do, and is empty when there is nothing to do."""

    name: str
    state: State
    found: str
    remedy: str = ""

    def as_json(self) -> dict[str, str | None]:
        """The finding for a program; null where there is nothing to do."""
        return {
            "check": self.name,
            "state": self.state,
            "found": self.found,
            "remedy": self.remedy or None,
        }


class Untold(Exception):
    """The stack does not tell what a check needs, as one of another version may not."""


def told(values: Mapping[str, str], name: str) -> str:
    """A stack's output or parameter. Raises Untold when it has none of that name."""
    if name not in values:
        raise Untold(f"the stack does not tell its {name}")
    return values[name]


def look(name: str, check: Callable[[], Check | Iterable[Check]]) -> list[Check]:
    """Make a check. What AWS answers with an error is a finding under `name` too."""
    try:
        found = check()
        return [found] if isinstance(found, Check) else list(found)
    except Untold as untold:
        return [Check(name, "unknown", str(untold), "deploy this version of rackrate")]
    except Refusal as refusal:
        return [failed(name, refusal)]
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
        said = f"{error.operation_name} answers {error_code(error)}: {error_message(error)}"
        return [Check(name, "unknown", shorten(said, _LONGEST))]
    except ResponseParserError:
        # A proxy's page, for example, or an emulation's.
        return [Check(name, "unknown", "what answers in AWS's place cannot be understood")]
    except BotoCoreError as error:
        return [failed(name, explain(error))]


def forbidden_action(error: ClientError) -> str:
    """The IAM action that a refused call needs, or at least the name of the call."""
    named = _ACTION.search(error_message(error))
    return named[1] if named else error.operation_name


def failed(name: str, refusal: Refusal) -> Check:
    """A refusal as a finding: its sentences read "what; remedy."."""
    what, _, remedy = _sentence(refusal).partition("; ")
    return Check(name, "failed", what, remedy)


def _sentence(error: Exception) -> str:
    return str(error).rstrip(".")
