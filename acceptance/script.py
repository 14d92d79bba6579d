"""What the parts of the acceptance use: the commands that a person runs, AWS, and checks."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from botocore.config import Config
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.stack import describe, session_of_environment

from acceptance.recording import VARIABLE, Recorder

POLL_SECONDS = 5.0
REPOSITORY = Path(__file__).resolve().parents[1]
_CAUSE_CHARACTERS = 600


@dataclass(frozen=True)
class Finding:
    """One check of a part. `settles` are assumptions of docs/aws-checks.md, by their anchors."""

    part: str
    check: str
    passed: bool
    detail: str = ""
    settles: tuple[str, ...] = ()


@dataclass
class Script:
    """One acceptance: its stack, its record, and what it found.

    `parameters` are the stack's beside the defaults; `short` leaves out what takes long. `sam` is
    the Python module that runs as the SAM CLI.
    """

    stack: str
    parameters: dict[str, str]
    short: bool
    directory: Path
    say: Callable[[str], None]
    sam: str = "samcli"
    part: str = "before"
    findings: list[Finding] = field(default_factory=list)
    salt: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _clients: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.calls = self.directory / "calls.jsonl"
        self.began = time.time()
        self.session = session_of_environment()
        self.caller = self.session.client("sts").get_caller_identity()
        self.recorder = Recorder(**self._recording("script"))
        self.recorder.attach(self.session._session)

    def _recording(self, program: str) -> dict[str, Any]:
        names = [name for name in self.caller["Arn"].split(":")[-1].split("/")[1:] if name]
        file = str(self.calls)
        return {
            "file": file,
            "part": self.part,
            "program": program,
            "salt": self.salt,
            "names": names,
        }

    # -- what a person uses

    def client(self, service: str) -> Any:
        """A recorded client of AWS."""
        if service not in self._clients:
            config = Config(retries={"mode": "standard"}, s3={"addressing_style": "path"})
            self._clients[service] = self.session.client(service, config=config)
        return self._clients[service]

    def program(
        self, module: str, *arguments: str, minutes: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python program with its calls recorded. Raises Refusal when it does not end."""
        variables = {
            VARIABLE: json.dumps(self._recording("samcli" if module == self.sam else module)),
            "PYTHONPATH": str(REPOSITORY),
            "SAM_CLI_TELEMETRY": "0",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        }
        self.say(f"{self.part}: {module.removesuffix('_cli')} {' '.join(arguments)}")
        with (self.directory / "commands.log").open("a", encoding="utf-8") as log:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "acceptance.recording", module, *arguments],
                    env=os.environ | variables,
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=minutes * 60,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise Refusal(f"{module} {arguments[0]} did not end in {minutes:g} min") from None
            log.write(f"$ {module} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done

    def rackrate(self, *arguments: str, code: int = 0, minutes: float = 60) -> dict[str, Any]:
        """What a command of rackrate answers with --json. Raises Refusal for another exit code."""
        done = self.program(
            *("rackrate_cli", *arguments, "--stack", self.stack, "--json"), minutes=minutes
        )
        if done.returncode != code:
            raise Refusal(f"rackrate {arguments[0]} ended with {done.returncode}: {_end(done)}")
        return dict(json.loads(done.stdout))

    def deploy(self, **parameters: str) -> subprocess.CompletedProcess[str]:
        """`sam deploy` with these parameters; the stack's others keep their values."""
        assignments = [f"{name}={value}" for name, value in parameters.items()]
        override = ("--parameter-overrides", *assignments) if assignments else ()
        return self.program(
            *(self.sam, "deploy", "--stack-name", self.stack),
            *("--no-fail-on-empty-changeset", *override),
        )

    def must_deploy(self, **parameters: str) -> None:
        """`sam deploy`. Raises Refusal with its last words."""
        done = self.deploy(**parameters)
        if done.returncode != 0:
            raise Refusal(f"sam deploy ended with {done.returncode}: {_end(done)}")

    # -- what AWS has

    def described(self) -> dict[str, Any] | None:
        """The stack in CloudFormation; None when there is none. Raises botocore's other errors."""
        description: dict[str, Any] | None = describe(self.client("cloudformation"), self.stack)
        return description

    def outputs(self) -> dict[str, str]:
        """The stack's outputs. Raises Refusal without a stack."""
        stack = self.described()
        if stack is None:
            raise Refusal(f"there is no stack {self.stack}")
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def instances(self) -> dict[str, dict[str, Any]]:
        """The running nodes of the stack's arms by instance id, as EC2 describes them."""
        outputs = self.outputs()
        groups = [
            name
            for key in ("TreatmentNodeGroups", "BaselineNodeGroups")
            for name in outputs.get(key, "").split(",")
            if name
        ]
        pages = (
            self.client("ec2")
            .get_paginator("describe_instances")
            .paginate(
                Filters=[
                    {"Name": "tag:eks:nodegroup-name", "Values": groups},
                    {"Name": "instance-state-name", "Values": ["pending", "running"]},
                ]
            )
        )
        return {
            instance["InstanceId"]: instance
            for page in pages
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        }

    def left_over(self) -> list[str]:
        """What carries the stack's tag still, by ARN."""
        pages = (
            self.client("resourcegroupstaggingapi")
            .get_paginator("get_resources")
            .paginate(TagFilters=[{"Key": "rackrate:stack", "Values": [self.stack]}])
        )
        return [each["ResourceARN"] for page in pages for each in page["ResourceTagMappingList"]]

    # -- checks

    def check(
        self, what: str, passed: bool, detail: object = "", *, settles: str | tuple[str, ...] = ()
    ) -> None:
        """Note a check, and say what failed."""
        text = str(detail)[:_CAUSE_CHARACTERS]
        anchors = (settles,) if isinstance(settles, str) else settles
        self.findings.append(Finding(self.part, what, passed, text, anchors))
        if not passed:
            self.say(f"{self.part}: FAILED: {what}: {text}")

    def wait[T](self, of: Callable[[], T | None], what: str, *, minutes: float) -> T:
        """Ask until there is an answer that is not None. Raises Refusal after so many minutes."""
        deadline = time.monotonic() + minutes * 60
        while True:
            value = of()
            if value is not None:
                return value
            if time.monotonic() > deadline:
                raise Refusal(f"{what}: not within {minutes:g} min")
            time.sleep(POLL_SECONDS)

    def document(self) -> dict[str, Any]:
        """What was found, as JSON."""
        return {
            "short": self.short,
            "parameters": self.parameters,
            "seconds": round(time.time() - self.began),
            "findings": [asdict(finding) for finding in self.findings],
        }


def _end(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return " ".join(lines[-3:])
