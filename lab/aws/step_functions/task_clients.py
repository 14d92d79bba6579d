"""Clients for tasks; a task that names a role acts with that role's credentials."""

from __future__ import annotations

import threading
import time
from typing import Any

import boto3
from botocore.config import Config

from lab.aws.iam.identity import ADMIN_CREDENTIALS, SESSION_SECONDS, assume_role


class TaskClients:
    """Clients for tasks; a task that names a role acts with that role's credentials."""

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url
        self._clients: dict[tuple[str, str | None], tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def client(self, region: str, service: str, state_credentials: Any = None) -> Any:
        """A client for a task, in place of moto's `boto_client_for`."""
        role = getattr(state_credentials, "role_arn", None)
        with self._lock:
            created_at, client = self._clients.get((service, role), (0.0, None))
            if client is None or time.monotonic() - created_at > SESSION_SECONDS / 2:
                keys = ADMIN_CREDENTIALS if role is None else assume_role(role, "StepFunctions")
                client = boto3.client(
                    service,  # type: ignore[call-overload]
                    region_name=region,
                    endpoint_url=self._endpoint_url,
                    config=Config(
                        parameter_validation=False,
                        retries={"total_max_attempts": 1},
                        read_timeout=960,
                        max_pool_connections=64,
                    ),
                    aws_access_key_id=keys.access_key_id,
                    aws_secret_access_key=keys.secret_access_key,
                    aws_session_token=keys.session_token,
                )
                self._clients[service, role] = (time.monotonic(), client)
            return client
