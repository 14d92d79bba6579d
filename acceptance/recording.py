"""Records the calls of a Python program to AWS with their answers, by botocore's events.

`python -m acceptance.recording MODULE ARGUMENT...` runs a program so, for example `samcli`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any

import botocore.session

from acceptance.redaction import Redaction

#: Where a recorded program writes, and what it needs to know: a JSON object with `file`, `part`,
#: `program`, `salt` and `names`.
VARIABLE = "RACKRATE_ACCEPTANCE"


class Recorder:
    """Appends each call as a line of JSON; programs and threads may share the file."""

    def __init__(self, file: str, part: str, program: str, salt: str, names: list[str]) -> None:
        self.part, self.program = part, program
        self._file, self._lock = Path(file), threading.Lock()
        self.redaction = Redaction(salt, tuple(names))

    def attach(self, session: botocore.session.Session) -> None:
        """Record the calls of clients that this session makes from now on."""
        register: Any = session.register
        register("provide-client-params", self._before)
        register("after-call", self._after)
        register("after-call-error", self._failed)

    def _before(self, params: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        context["acceptance"] = (time.time(), params, model)

    def _after(self, http_response: Any, parsed: Any, model: Any, context: Any, **_: Any) -> None:
        error = parsed.get("Error")
        self._write(
            *(context["acceptance"], http_response.status_code),
            error=None if not error else {k: error.get(k, "") for k in ("Code", "Message")},
            answer={} if error else self.redaction.value(parsed, model.output_shape),
        )

    def _failed(self, exception: Exception, context: Any, **_: Any) -> None:
        error = {"Code": type(exception).__name__, "Message": str(exception)}
        self._write(context["acceptance"], None, error=error, answer={})

    def _write(
        self, call: tuple[float, Any, Any], status: int | None, *, error: Any, answer: Any
    ) -> None:
        began, parameters, model = call
        line = {
            "at": round(began, 3),
            "seconds": round(time.time() - began, 3),
            "part": self.part,
            "program": self.program,
            "service": model.service_model.service_name,
            "operation": model.name,
            "parameters": self.redaction.value(parameters, model.input_shape),
            "status": status,
            "error": self.redaction.value(error),
            "answer": answer,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # One write for a line, so that lines of several programs do not mix.
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Run a module as the program that it is, with all of its sessions recorded."""
    recorder = Recorder(**json.loads(os.environ[VARIABLE]))
    init = botocore.session.Session.__init__

    def recorded(session: botocore.session.Session, *args: Any, **more: Any) -> None:
        init(session, *args, **more)
        recorder.attach(session)

    botocore.session.Session.__init__ = recorded  # type: ignore[method-assign,assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
