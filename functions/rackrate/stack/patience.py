"""Patience with a role that IAM has only just made."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

logger = Logger(child=True)

#: The refusals that a new role, or its first credentials, can meet.
REFUSALS = frozenset(
    {
        "UnauthorizedOperation",
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)
#: Seconds between the attempts: 22 together, which leaves a function of a minute time to answer.
_PAUSES = (2.0, 4.0, 8.0, 8.0)


class Patience:
    """Repeats what AWS refuses, because a change of IAM takes effect only after some seconds.

    Source: IAM user guide, "Troubleshoot IAM", "Changes that I make are not always immediately
    visible". All calls share the pauses, so a refusal that lasts costs them once.
    """

    def __init__(
        self, pauses: Sequence[float] = _PAUSES, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._pauses, self._sleep = list(pauses), sleep

    def ask[Answer](self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question.

        Raises:
            ClientError: AWS still refuses it after the last pause, or the error is another one.
        """
        while True:
            try:
                return question()
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSALS or not self._pauses:
                    raise
                logger.info("AWS refuses what the role may do; asking again", error=str(error))
            self._sleep(self._pauses.pop(0))
