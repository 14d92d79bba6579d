"""Let taskcat, which has another environment, deploy and delete stacks for tests."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import stack as lab_stack

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-taskcat" / "bin" / "python"
DRIVER = Path(__file__).with_name("driver.py")
CONFIGURATION = ROOT / ".taskcat.yml"
DEPLOY_SECONDS = 900.0
DELETE_SECONDS = 300.0


class TaskcatError(Exception):
    """taskcat could not deploy. The message is its own, with the end of its log."""


@dataclass(frozen=True)
class Deployment:
    """A stack of a taskcat test.

    `reasons` say why it failed, each with the logical id of the resource. Those of nested stacks
    are the causes. `parameters` are those that taskcat passed. `deletion` has an entry when the
    stack is deleted or the deletion has failed.
    """

    name: str
    stack_id: str
    status: str
    outputs: Mapping[str, str]
    parameters: Mapping[str, str]
    reasons: tuple[str, ...]
    deletion: list[Deployment] = field(default_factory=list)

    @property
    def created(self) -> bool:
        return self.status == "CREATE_COMPLETE"


@dataclass(frozen=True)
class Taskcat:
    """taskcat with packaged templates, for the endpoint that `environment` names.

    `packaged` is the directory that has them, whose files become those of build/ that the
    configuration names. taskcat uploads them to the existing `bucket`, as with S3_BUCKET of
    `make taskcat`. `directory` is a new directory that taskcat may write to.
    """

    environment: Mapping[str, str]
    packaged: Path
    bucket: str
    directory: Path
    configuration: Path = CONFIGURATION

    @contextlib.contextmanager
    def deployed(
        self,
        test: str,
        parameters_override: Mapping[str, str] | None = None,
        deploy_seconds: float = DEPLOY_SECONDS,
        delete_seconds: float = DELETE_SECONDS,
    ) -> Iterator[Deployment]:
        """Deploy a test's stack, and let taskcat delete it afterwards.

        Yields a failed stack too, with its reasons. Raises TaskcatError when taskcat cannot deploy,
        and AssertionError when the stack cannot be deleted or takes too long.
        """
        with self._driver(test, parameters_override or {}) as driver:
            stack = _stack(driver, deploy_seconds)
            try:
                yield stack
            finally:
                # Delete also after a failed test, because a remaining stack would block the next.
                assert driver.stdin is not None
                driver.stdin.close()
                stack.deletion.append(_stack(driver, delete_seconds))
        end = stack.deletion[0]
        assert end.status == "DELETE_COMPLETE", f"{end.status}: {'; '.join(end.reasons)}"

    @contextlib.contextmanager
    def _driver(
        self, test: str, parameters: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        shutil.copytree(self.packaged, self.directory / "build", dirs_exist_ok=True)
        log = self.directory / f".{test}.log"
        command = [PYTHON, "-W", "ignore", DRIVER, self.configuration, self.directory, self.bucket]
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [*map(str, command), test, json.dumps(dict(parameters))],
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as driver,
        ):
            try:
                yield driver
                driver.wait(timeout=30)
            except TaskcatError as error:
                lines = log.read_text(errors="replace").splitlines()[-20:]
                raise TaskcatError("\n".join([str(error), *lines])) from None
            finally:
                if driver.poll() is None:
                    driver.kill()

    def _environment(self) -> dict[str, str]:
        # taskcat uses the profile "default", which would override the variables.
        none = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        return dict(self.environment) | none


def in_lab(status: Mapping[str, Any], directory: Path) -> Taskcat:
    """taskcat for the running lab, with the templates that were packaged into the lab's S3."""
    environment = lab_stack.child_environment(status)
    packaged = lab_stack.packaged_directory(status)
    return Taskcat(environment, packaged, f"{lab_stack.STACK}-artifacts", directory)


def _stack(driver: subprocess.Popen[bytes], seconds: float) -> Deployment:
    result = json.loads(_line(driver, seconds))
    if "error" in result:
        raise TaskcatError(result["error"])
    result["reasons"] = tuple(result["reasons"])
    return Deployment(**result)


def _line(driver: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The driver's next line.

    Raises TaskcatError when the driver ends first, and AssertionError at the deadline.
    """
    assert driver.stdout is not None
    deadline = time.monotonic() + seconds
    line: Any = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([driver.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"taskcat has said nothing for {seconds:.0f} s"
        # Read what is available, because readline would wait for the end of the line.
        more = os.read(driver.stdout.fileno(), 65536)
        if not more:
            raise TaskcatError("taskcat ended without an answer")
        line += more
    return bytes(line)
