"""Errors of the emulated APIs."""

from __future__ import annotations

from moto.core.exceptions import ServiceException


class ApiError(ServiceException):
    """A code and a message, serialised as the service's protocol asks.

    A class of its own because moto looks for an exception's error model in the service that its
    module belongs to, and ServiceException itself belongs to none.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
