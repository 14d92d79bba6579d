"""What goes wrong with requests and resources, in CloudFormation's words."""

from __future__ import annotations


class StackError(Exception):
    """A refused request: code and message of the API error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class ResourceFailure(Exception):
    """A resource could not be made, changed or removed; the message is the event's reason."""
