"""The errors of requests and resources, with CloudFormation's messages."""

from __future__ import annotations


class StackError(Exception):
    """A refused request: code and message of the API error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class ResourceFailure(Exception):
    """A resource could not be created, updated or deleted; the message is the event's reason."""
