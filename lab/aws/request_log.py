"""The log of the requests that the emulated AWS answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

StartResponse = Callable[..., Any]
Application = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class RequestLog:
    """One line per request: time, duration, status, method, path, action."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def around(self, application: Application) -> Application:
        """The application, changed to log each request."""

        def logged(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            started = time.monotonic()
            seen: list[str] = []

            def starting(status: str, *args: Any) -> Any:
                seen.append(status)
                return start_response(status, *args)

            try:
                return application(environ, starting)
            finally:
                self._note(environ, seen[0][:3] if seen else "---", time.monotonic() - started)

        return logged

    def _note(self, environ: dict[str, Any], status: str, seconds: float) -> None:
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        credential = authorization.partition("Credential=")[2].split(",")[0].split("/")
        service = credential[3] if len(credential) > 3 else "-"
        key = credential[0] or "-"
        target = environ.get("HTTP_X_AMZ_TARGET", "-")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = (
            f"{stamp} {seconds * 1e3:8.1f} ms {status} {key} {service} {target}"
            f" {environ['REQUEST_METHOD']} {environ['PATH_INFO']}\n"
        )
        with self._lock:
            if not self._file.closed:
                self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
