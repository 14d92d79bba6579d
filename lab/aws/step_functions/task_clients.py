"""Clients for tasks; a task that names a role acts with that role's credentials."""

from __future__ import annotations

import threading
import time
from typing import Any

from lab.aws.clients import ClientFactory
from lab.aws.iam.identity import ADMIN_CREDENTIALS, SESSION_SECONDS, assume_role


class TaskClients:
    """Clients for tasks; a task that names a role acts with that role's credentials."""

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url
        self._clients: dict[str | None, tuple[float, ClientFactory]] = {}
        self._lock = threading.Lock()

    def client(self, region: str, service: str, state_credentials: Any = None) -> Any:
        """A client for a task, in place of moto's `boto_client_for`."""
        role = getattr(state_credentials, "role_arn", None)
        with self._lock:
            created_at, clients = self._clients.get(role, (0.0, None))
            if clients is None or time.monotonic() - created_at > SESSION_SECONDS / 2:
                keys = ADMIN_CREDENTIALS if role is None else assume_role(role, "StepFunctions")
                clients = ClientFactory(self._endpoint_url, keys, validates=False)
                self._clients[role] = (time.monotonic(), clients)
        return clients.get(service)
