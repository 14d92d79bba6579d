"""Deploy and delete the stack of one taskcat test with taskcat's own API. Runs in .venv-taskcat.

Usage: driver.py CONFIGURATION PROJECT_ROOT BUCKET TEST PARAMETERS

taskcat uploads PROJECT_ROOT to BUCKET. It needs an existing bucket, because its clean-up does not
find one that it made itself. PARAMETERS is a JSON object that overrides the test's parameters.
botocore's standard variables, such as AWS_ENDPOINT_URL, say where to deploy. The driver writes one
line of JSON when the deployment has ended. It deletes the stack when it reads a line or the input
ends, and writes another line:

    {"name", "stack_id", "status", "outputs": {name: value}, "parameters": {name: value},
     "reasons": ["logical id: reason"]}

It also writes these lines for a stack that failed. When taskcat cannot deploy, it writes
{"error": message} and exits with code 1.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from taskcat._cfn.stack import Stack, StackStatus
from taskcat._config import Config
from taskcat._tui import TerminalPrinter
from taskcat.exceptions import TaskCatException
from taskcat.testing import CFNTest

POLL_SECONDS = 2.0


class Progress(TerminalPrinter):
    """Wait as taskcat does, but poll the status here, because taskcat polls once a minute."""

    def report_test_progress(self, stacker: Any, poll_interval: float = POLL_SECONDS) -> None:
        for stack in stacker.stacks:
            if stack.launch_exception:
                continue
            while status_now(stack) in StackStatus.IN_PROGRESS:
                time.sleep(poll_interval)
            stack.refresh()


def status_now(stack: Stack) -> str:
    """The stack's status alone: taskcat's `refresh` also asks for all of its nested stacks."""
    return str(stack.client.describe_stacks(StackName=stack.id)["Stacks"][0]["StackStatus"])


def configured(
    configuration: Path, project_root: Path, bucket: str, test: str, parameters: dict[str, str]
) -> CFNTest:
    """The test from this configuration, without the user's own taskcat configuration."""
    nowhere = project_root / "none"
    config = Config.create(
        project_config_path=configuration,
        project_root=project_root,
        global_config_path=nowhere,
        overrides_path=nowhere,
        env_vars={"TASKCAT_PROJECT_S3_BUCKET": bucket},
        uid=uuid.uuid4(),
    )
    if test not in config.config.tests:
        raise TaskCatException(f"{configuration} has no test {test!r}")
    config.config.tests[test].parameters.update(parameters)
    return CFNTest(
        config,
        printer=Progress(minimalist=True),
        test_names=test,
        lint_disable=True,
        dont_wait_for_delete=False,
    )


def described(stack: Stack, status: str) -> dict[str, Any]:
    """A stack's result. Only a stack that failed is asked for reasons."""
    reasons: list[str] = []
    if status in StackStatus.FAILED:
        reasons = reasons_of(stack) or [stack.status_reason]
    return {
        "name": stack.name,
        "stack_id": stack.id,
        "status": status,
        "outputs": {output.key: output.value for output in stack.outputs},
        "parameters": dict(stack.region.parameters),
        "reasons": list(dict.fromkeys(reasons)),
    }


def reasons_of(stack: Stack) -> list[str]:
    """Why resources of a stack and of its nested stacks failed, in order."""
    # `error_events(refresh=True)` would ask for each stack's events anew for each status.
    for each in (stack, *stack.descendants()):
        each.refresh(properties=False, events=True)
    failures = stack.error_events()
    return [f"{event.logical_id}: {event.status_reason}" for event in reversed(failures)]


def deleted(test: CFNTest, stack: Stack) -> dict[str, Any]:
    """Delete a stack with taskcat. Returns its result."""
    try:
        test.clean_up()
    except TaskCatException:
        # taskcat raises for a stack that had failed, even after a successful deletion.
        logging.debug("taskcat complained after deletion", exc_info=True)
    return described(stack, "DELETE_COMPLETE" if stack.launch_exception else status_now(stack))


def main() -> int:
    # Keep taskcat's own output apart from the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configuration, project_root, bucket, name, parameters = sys.argv[1:]
    try:
        test = configured(
            Path(configuration), Path(project_root), bucket, name, json.loads(parameters)
        )
        test.run()
        (stack,) = test.result
        print(json.dumps(described(stack, stack.status)), file=answers)
        sys.stdin.readline()
        print(json.dumps(deleted(test, stack)), file=answers)
    except Exception as error:
        logging.exception("taskcat could not go on")
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # taskcat leaves a timer for each stack, which would keep the process alive for a minute.
    os._exit(code)
