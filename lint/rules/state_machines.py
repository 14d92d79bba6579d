"""State machines of SAM: the definition in its file, and the template around it.

cfn-lint does not read DefinitionUri. A finding is at the template's property that names the file,
and its message names the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfnlint.template import Template

from lint import definition as asl
from lint.raised import raised_names
from lint.rule import Rule
from lint.rules.policies import allowing_statements, names_own_role
from lint.template import Place, properties, resources, walk

MACHINE = "AWS::Serverless::StateMachine"
STEP_FUNCTIONS = "https://docs.aws.amazon.com/step-functions/latest/dg"

#: The errors of Step Functions itself and of its Lambda integration.
AWS_ERRORS = {
    "States.ALL",
    "States.BranchFailed",
    "States.DataLimitExceeded",
    "States.ExceedToleratedFailureThreshold",
    "States.HeartbeatTimeout",
    "States.Http.Socket",
    "States.IntrinsicFailure",
    "States.ItemReaderFailed",
    "States.NoChoiceMatched",
    "States.ParameterPathFailure",
    "States.Permissions",
    "States.ResultPathMatchFailure",
    "States.ResultWriterFailed",
    "States.Runtime",
    "States.TaskFailed",
    "States.Timeout",
    "Lambda.Unknown",
}
#: The errors of an invocation that pass by themselves: Lambda is busy, or lost the call.
OF_LAMBDA = {
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.EC2ThrottledException",
    "Lambda.EC2UnexpectedException",
    "Lambda.ResourceConflictException",
    "Lambda.ResourceNotReadyException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
}
#: The errors of a function's process that ended, and of one that took too long. Step Functions
#: documents Lambda.Unknown for both.
CRASHES = {"Runtime.ExitError", "Runtime.OutOfMemory"}
TIME_OUTS = {"Lambda.Unknown", "Sandbox.Timedout", "States.Timeout"}
RETRIED = OF_LAMBDA | CRASHES | TIME_OUTS
#: The actions that logging needs (Step Functions, "Logging in CloudWatch Logs").
LOGGING = {
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
}
#: The actions that tracing needs (Step Functions, "X-Ray and Step Functions").
TRACING = {
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
#: The prefix of an integration's errors where it is not its name.
ERROR_PREFIXES = {"states": "stepfunctions"}
#: Actions that are also allowed. Data encrypted with a customer managed key needs the key. Stopping
#: a Distributed Map does the same to its executions.
BESIDE = {
    "s3:GetObject": {"kms:Decrypt"},
    "s3:PutObject": {"kms:Decrypt", "kms:GenerateDataKey"},
    "states:DescribeExecution": {"states:StopExecution"},
}


@dataclass(frozen=True)
class Machine:
    """A state machine of the template, and its definition.

    Attributes:
        logical_id: of the state machine.
        resource: the resource.
        path: the definition's file.
        text: its text, with placeholders.
        definition: its content.
    """

    logical_id: str
    resource: dict[str, Any]
    path: Path
    text: str
    definition: dict[str, Any]

    def place(self, name: str = "DefinitionUri") -> Place:
        """The place of a property of the state machine."""
        return ["Resources", self.logical_id, "Properties", name]


def definition_files(cfn: Template) -> Iterator[tuple[str, dict[str, Any], Path]]:
    """All state machines whose definition is a local file."""
    if not cfn.filename:
        return
    for logical_id, resource in resources(cfn, MACHINE):
        uri = properties(resource).get("DefinitionUri")
        if isinstance(uri, str) and "://" not in uri:
            yield logical_id, resource, Path(cfn.filename).resolve().parent / uri


def machines(cfn: Template) -> Iterator[Machine]:
    """All state machines with a readable definition."""
    for logical_id, resource, path in definition_files(cfn):
        try:
            yield Machine(logical_id, resource, path, path.read_text(), asl.read(path))
        except (OSError, ValueError):
            continue


class DefinitionCanBeRead(Rule):
    id = "E9200"
    shortdesc = "DefinitionUri names a state machine's definition"
    description = "The file is there, and is YAML or JSON with States."
    source_url = "https://states-language.net/spec.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, _, path in definition_files(cfn):
            try:
                asl.read(path)
            except ValueError as error:
                yield (
                    ["Resources", logical_id, "Properties", "DefinitionUri"],
                    f"DefinitionUri: {path.name} is no definition ({error}); correct it or the "
                    "path, which is relative to the template",
                )


class DefinitionTasks(Rule):
    id = "E9202"
    shortdesc = "Every task has TimeoutSeconds, Retry and a Catch for everything"
    description = (
        "A task without time-out may hang for a year, one without Retry fails at the first "
        "throttling, and one without Catch for States.ALL skips what cleans up. States.ALL has "
        "to stand alone, and last. A Distributed Map needs the Catch too, and a Choice a Default."
    )
    source_url = f"{STEP_FUNCTIONS}/sfn-best-practices.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for machine in machines(cfn):
            for name, state in asl.states(machine.definition):
                for fault in self._faults(state):
                    yield machine.place(), f"{machine.path.name}: state {name!r} {fault}"

    def _faults(self, state: asl.State) -> Iterator[str]:
        is_task, is_map = state.get("Type") == "Task", state.get("Type") in ("Map", "Parallel")
        if is_task and not {"TimeoutSeconds", "TimeoutSecondsPath"} & state.keys():
            yield "has no TimeoutSeconds; add one above the longest it may take"
        if is_task and not state.get("Retry"):
            yield "has no Retry; retry at least what the service may recover from"
        if (is_task or is_map) and not self._catches_everything(state):
            yield "does not catch everything; add a last Catch with ErrorEquals: [States.ALL]"
        if state.get("Type") == "Choice" and "Default" not in state:
            yield "fails where no choice matches; add Default"
        for key in ("Retry", "Catch"):
            handlers = state.get(key, [])
            for index, handler in enumerate(handlers):
                errors = handler.get("ErrorEquals", [])
                if "States.ALL" in errors and (len(errors) > 1 or index < len(handlers) - 1):
                    yield f"has States.ALL in {key} with or before others; put it alone and last"

    @staticmethod
    def _catches_everything(state: asl.State) -> bool:
        if str(state.get("Resource", "")).endswith(".waitForTaskToken"):
            # Whoever holds the token decides with which error the state fails.
            return True
        return bool(state.get("Catch")) and state["Catch"][-1].get("ErrorEquals") == ["States.ALL"]


class DefinitionRetries(Rule):
    id = "E9206"
    shortdesc = "Every state that invokes a function retries the same errors"
    description = (
        "Lambda runs a function again that crashed, timed out or was throttled only if the state "
        "machine asks for it. The names differ from failure to failure, so every invocation has "
        "one list, the same in the whole definition. States.ALL and States.TaskFailed would also "
        "retry a mistake of the user."
    )
    source_url = f"{STEP_FUNCTIONS}/bp-lambda-serviceexception.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for machine in machines(cfn):
            invoking = [
                (name, state)
                for name, state in asl.states(machine.definition)
                if str(state.get("Resource", "")).endswith(":lambda:invoke") and state.get("Retry")
            ]
            for name, state in invoking:
                for fault in self._faults(state, invoking[0]):
                    yield machine.place(), f"{machine.path.name}: state {name!r} {fault}"

    @staticmethod
    def _faults(state: asl.State, first: tuple[str, asl.State]) -> Iterator[str]:
        retriers = state["Retry"]
        retried = {
            error
            for retrier in retriers
            if retrier.get("MaxAttempts") != 0
            for error in retrier.get("ErrorEquals", [])
        }
        for error in sorted(RETRIED - retried):
            yield f"does not retry {error}; add it to Retry"
        for error in sorted({"States.ALL", "States.TaskFailed"} & retried):
            yield f"retries {error}, so mistakes of the user too; name what passes by itself"
        if retriers != first[1]["Retry"]:
            yield f"retries otherwise than {first[0]!r}; use the same Retry in every state"


class DefinitionErrors(Rule):
    id = "E9203"
    shortdesc = "Retry and Catch name errors that someone raises"
    description = (
        "Step Functions compares class names, so that a base class, or a class renamed, never "
        "matches. A name is Step Functions' or Lambda's own, or that of an AWS SDK integration of "
        "the state, or some code of the template's functions (CodeUri) raises a class of that name."
    )
    source_url = f"{STEP_FUNCTIONS}/concepts-error-handling.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for machine in machines(cfn):
            known = AWS_ERRORS | RETRIED | self._raised(cfn)
            for name, state in asl.states(machine.definition):
                for key in ("Retry", "Catch"):
                    for handler in state.get(key, []):
                        for error in handler.get("ErrorEquals", []):
                            if error not in known and not self._of_integration(error, state):
                                yield (
                                    machine.place(),
                                    f"{machine.path.name}: state {name!r} has {error} in {key}, "
                                    "which nothing raises; correct the name or remove it",
                                )

    @staticmethod
    def _raised(cfn: Template) -> set[str]:
        found: set[str] = set()
        for _, function in resources(cfn, "AWS::Serverless::Function"):
            uri = properties(function).get("CodeUri")
            if isinstance(uri, str) and "://" not in uri:
                found |= raised_names(Path(cfn.filename).resolve().parent / uri)
        return found

    @staticmethod
    def _of_integration(error: str, state: asl.State) -> bool:
        service = re.search(r"(?:aws-sdk:)?(\w+):\w+$", str(state.get("Resource")).split(".")[0])
        prefix, dot, _ = error.partition(".")
        if not dot or service is None:
            return False
        name = service[1].lower()
        return prefix.lower() == ERROR_PREFIXES.get(name, name) != "lambda"


class DefinitionSubstitutions(Rule):
    id = "E9204"
    shortdesc = "DefinitionSubstitutions are exactly what the definition asks for"
    description = (
        "A placeholder without substitution stays in the definition as it is; a substitution "
        "without placeholder is a leftover."
    )
    source_url = (
        "https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/"
        "sam-resource-statemachine.html#sam-statemachine-definitionsubstitutions"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for machine in machines(cfn):
            declared = _substitutions(machine).keys()
            asked = asl.placeholders(machine.text)
            for name in sorted(asked - declared):
                yield (
                    machine.place("DefinitionSubstitutions"),
                    f"{machine.path.name} asks for ${{{name}}}, which DefinitionSubstitutions "
                    "do not declare; declare it",
                )
            for name in sorted(declared - asked):
                yield (
                    machine.place("DefinitionSubstitutions"),
                    f"DefinitionSubstitutions declare {name}, which {machine.path.name} does "
                    "not ask for; remove it",
                )


class DefinitionPermissions(Rule):
    id = "E9205"
    shortdesc = "The state machine's role allows what its definition does, and nothing else"
    description = (
        "Every service integration, item reader and Distributed Map of the definition needs an "
        "action, Logging and Tracing need theirs, and the role's inline policies allow exactly "
        "these; lambda:InvokeFunction names exactly the functions that the definition calls. Only "
        "roles of the same template are looked at."
    )
    source_url = f"{STEP_FUNCTIONS}/service-integration-iam-templates.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for machine in machines(cfn):
            for role in sorted(names_own_role(cfn, machine.resource)):
                statements = [
                    statement
                    for place, statement in allowing_statements(cfn)
                    if place[:3] == ["Resources", role, "Properties"]
                    and "AssumeRolePolicyDocument" not in place
                ]
                place: Place = ["Resources", role, "Properties", "Policies"]
                for fault in self._faults(machine, role, statements):
                    yield place, fault

    def _faults(
        self, machine: Machine, role: str, statements: list[dict[str, Any]]
    ) -> Iterator[str]:
        calls = list(asl.calls(machine.definition))
        needed = {call.action: f"state {call.state!r} needs" for call in calls}
        if "Logging" in properties(machine.resource):
            needed |= dict.fromkeys(LOGGING, "Logging needs")
        if "Tracing" in properties(machine.resource):
            needed |= dict.fromkeys(TRACING, "Tracing needs")
        allowed = {action for statement in statements for action in _texts(statement, "Action")}
        beside = {extra for action in needed for extra in BESIDE.get(action, set())}
        for action in sorted(needed.keys() - allowed):
            yield f"{role} does not allow {action}, which {needed[action]}; add it"
        for action in sorted(allowed - needed.keys() - beside):
            yield f"{role} allows {action}, which nothing in {machine.path.name} needs; remove it"
        yield from self._functions(machine, role, calls, statements)

    @staticmethod
    def _functions(
        machine: Machine, role: str, calls: list[asl.Call], statements: list[dict[str, Any]]
    ) -> Iterator[str]:
        substitutions = _substitutions(machine)
        called = {
            _target(call.function, substitutions) for call in calls if call.function is not None
        }
        allowed = {
            _key(resource)
            for statement in statements
            if "lambda:InvokeFunction" in _texts(statement, "Action")
            for resource in _list(statement.get("Resource"))
        }
        for function in sorted(called - allowed):
            yield (
                f"{role} does not allow lambda:InvokeFunction on {function}, which "
                f"{machine.path.name} calls; add it to Resource"
            )
        for function in sorted(allowed - called):
            yield (
                f"{role} allows lambda:InvokeFunction on {function}, which {machine.path.name} "
                "does not call; remove it from Resource"
            )


def _substitutions(machine: Machine) -> dict[str, Any]:
    found = properties(machine.resource).get("DefinitionSubstitutions")
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts(statement: Mapping[str, Any], name: str) -> set[str]:
    return {value for _, value in walk(statement.get(name)) if isinstance(value, str)}


def _target(function: str, substitutions: Mapping[str, Any]) -> str:
    """The function that a FunctionName means, in the form that a policy uses."""
    placeholder = re.fullmatch(r"\$\{(\w+)\}", function)
    return _key(substitutions.get(placeholder[1], function) if placeholder else function)


def _key(value: Any) -> str:
    """A short text for a value, equal for equal values."""
    if isinstance(value, dict) and "Fn::GetAtt" in value:
        return ".".join(map(str, _list(value["Fn::GetAtt"])))
    return str(value)
