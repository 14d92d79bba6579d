"""boto3 clients with which parts of the emulated AWS call one another, as AWS's services do."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from lab.aws.account import REGION, Credentials


class ClientFactory:
    """boto3 clients of the emulated AWS; made once per service, safe to use from any thread.

    Clients that do not validate leave it to the service to refuse parameters.
    """

    def __init__(
        self, endpoint_url: str, credentials: Credentials, *, validates: bool = True
    ) -> None:
        self.endpoint_url, self._validates = endpoint_url, validates
        self._session = boto3.Session(
            aws_access_key_id=credentials.access_key_id,
            aws_secret_access_key=credentials.secret_access_key,
            aws_session_token=credentials.session_token,
            region_name=REGION,
        )
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, service: str) -> Any:
        """A client of the service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._session.client(
                    service,  # type: ignore[call-overload]
                    endpoint_url=self.endpoint_url,
                    config=Config(
                        parameter_validation=self._validates,
                        # A Lambda invocation may take 900 s, and must not happen twice.
                        read_timeout=960,
                        retries={"total_max_attempts": 1},
                        max_pool_connections=64,
                        s3={"addressing_style": "path"},
                        # Keep large uploads from being sent with checksums moto must unwrap.
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                    ),
                )
            return self._clients[service]
