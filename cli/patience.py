"""How long the command waits for AWS while it is busy, has a fault, or cannot be reached."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

import boto3
from botocore.exceptions import ClientError

from .errors import is_temporary

PATIENCE_SECONDS = 30.0
"""How long a call is repeated, after the first attempts that botocore makes by itself."""

_is_brief = ContextVar("is_brief", default=False)


@contextmanager
def brief() -> Iterator[None]:
    """A context in which calls fail after few attempts, for a loop that is patient itself."""
    token = _is_brief.set(True)
    try:
        yield
    finally:
        _is_brief.reset(token)


class Patience:
    """Repeats the calls of a session's clients where botocore gives up after some seconds.

    An endpoint that has never answered is not waited for: its address may be wrong.
    """

    def __init__(self, session: boto3.Session) -> None:
        self._has_responded = False
        # The handlers of botocore's own retries are asked before.
        session.events.register("needs-retry", self._delay)  # type: ignore[arg-type]
        session.events.register("before-parameter-build.cloudformation", _add_token)

    def _delay(self, **call: Any) -> float | None:
        """The seconds until the next attempt of a call, or None for no other attempt."""
        error = call["caught_exception"]
        if call["response"] is not None:
            self._has_responded = True
            error = ClientError(call["response"][1], call["operation"].name)
        if _is_brief.get() or not self._has_responded or not is_temporary(error):
            return None
        now = time.monotonic()
        since = call["request_dict"]["context"].setdefault("failing_since", now)
        return None if now - since > PATIENCE_SECONDS else random.uniform(0.5, 2)


def _add_token(params: dict[str, Any], model: Any, **_: object) -> None:
    """Let CloudFormation recognize a repeated request, whose first answer may be lost.

    Other writes of the command can be repeated as they are.
    """
    for name in {"ClientRequestToken", "ClientToken"} & model.input_shape.members.keys():
        params.setdefault(name, str(uuid4()))
