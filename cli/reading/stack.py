"""The deployed stack. The command finds it by name and uses only its outputs and parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Self

import boto3
from boto3.dynamodb.conditions import Attr, ConditionBase, Key
from botocore.config import Config
from botocore.exceptions import ClientError

from rackrate_text.words import listed

from ..errors import Refusal, error_code, error_message, unless_missing
from ..patience import Patience
from .baselines import Baseline
from .kinds import CAMPAIGN, RUN, Kind
from .records import GOOD, Record

# Give up on a dead endpoint within seconds, because a person waits.
_CONFIG = Config(
    connect_timeout=5,
    read_timeout=20,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=16,
)


@dataclass(frozen=True)
class Execution:
    """An execution in Step Functions. `status` is its own value, for example SUCCEEDED."""

    status: str
    error: str
    cause: str

    @classmethod
    def of(cls, record: Record) -> Self:
        """Build the execution of a run or campaign that is over from its record.

        Step Functions deletes an execution 90 days after its end.
        """
        ended = {"aborted": "ABORTED", "timed_out": "TIMED_OUT"}.get(record.status, "FAILED")
        status = "SUCCEEDED" if record.status in GOOD else ended
        return cls(status, record.error or "", record.cause or "")

    @property
    def is_running(self) -> bool:
        return self.status in {"RUNNING", "PENDING_REDRIVE"}


@dataclass(frozen=True)
class Outcome[R: Record]:
    """A final or last known state. `record` is None when the stack has none."""

    id: str
    execution: Execution
    record: R | None
    kind: Kind[R]


class FailedTrial(NamedTuple):
    """A trial without a value, and why. `key` identifies it within its run."""

    key: str
    reason: str
    arm: str
    client: str
    server: str


class Stack:
    """The public contract of one deployed stack.

    `outputs` and `parameters` are CloudFormation's, by name. `status` is its stack status. Methods
    raise Refusal for errors that only they can explain, and botocore's errors otherwise.
    """

    def __init__(
        self,
        name: str,
        outputs: Mapping[str, str],
        session: boto3.Session,
        *,
        parameters: Mapping[str, str] | None = None,
        status: str = "",
    ) -> None:
        self.name = name
        self.outputs = outputs
        self.parameters = parameters or {}
        self.status = status
        self.session = session
        self.bucket = _output(name, outputs, "BucketName")
        _output(name, outputs, RUN.machine)
        table = _output(name, outputs, "TableName")
        self._step_functions = session.client("stepfunctions", config=_CONFIG)
        self._s3 = session.client("s3", config=_CONFIG)
        self._table: Any = session.resource("dynamodb", config=_CONFIG).Table(table)

    @classmethod
    def find(cls, name: str) -> Stack:
        """Look the stack up in the environment's Region and account."""
        session = session_of_environment()
        description = describe(client_of(session, "cloudformation"), name)
        if description is None:
            raise Refusal(
                f'There is no stack "{name}" in {session.region_name}; deploy it with `rackrate up`'
                " or `sam deploy`, or name another with --stack."
            )
        status = str(description["StackStatus"])
        if status.startswith(("CREATE_IN", "DELETE", "ROLLBACK", "CREATE_FAILED")):
            raise Refusal(
                f'The stack "{name}" is {status} and cannot be used; wait for it or deploy it'
                " again."
            )
        outputs, parameters = (values_of(description, kind) for kind in ("Output", "Parameter"))
        return cls(name, outputs, session, parameters=parameters, status=status)

    def client(self, service: str, **options: Any) -> Any:
        """A client of another service in the stack's Region, with the same short timeouts."""
        return client_of(self.session, service, **options)

    def start(self, kind: Kind[Any], name: str, text: str) -> str:
        """Start an execution with the JSON text of its input. Returns its ARN."""
        machine = self._machine(kind)
        other = CAMPAIGN if kind is RUN else RUN
        record = self.record(other, name)
        # The stack refuses an id of the other kind too, but records the refusal under this name.
        if record is not None and record.status != "invalid":
            raise _named_twice(other, name)
        try:
            return self._step_functions.start_execution(
                stateMachineArn=machine, name=name, input=text
            )["executionArn"]
        except ClientError as error:
            if error_code(error) == "ExecutionAlreadyExists":
                raise _named_twice(kind, name) from error
            raise

    def start_comparison(self, name: str, text: str) -> str:
        """Start a comparison with the JSON text of its input. Returns the execution's ARN."""
        machine = self._output("ComparisonStateMachineArn", "state machine for comparisons")
        return self._step_functions.start_execution(stateMachineArn=machine, name=name, input=text)[
            "executionArn"
        ]

    def redrive(self, run_id: str) -> str:
        """Let a run that failed or was stopped go on from its stored trials. Returns the ARN."""
        arn = self.arn(RUN, run_id)
        try:
            self._step_functions.redrive_execution(executionArn=arn)
        except ClientError as error:
            if error_code(error) in {"ExecutionNotRedrivable", "ExecutionDoesNotExist"}:
                raise Refusal(
                    f"Run {run_id} cannot be continued any more ({error_message(error)}); start a"
                    " new one with `rackrate run`."
                ) from error
            raise
        return arn

    def input_of(self, run_id: str) -> str:
        """The plan's JSON text with which a run was started."""
        response = self._step_functions.describe_execution(executionArn=self.arn(RUN, run_id))
        return str(response["input"])

    def check_campaigns(self) -> None:
        """Raise Refusal when the stack is of a version without campaigns."""
        self._machine(CAMPAIGN)

    def _machine(self, kind: Kind[Any]) -> str:
        return self._output(kind.machine, f"{kind.key}s")

    def _output(self, name: str, purpose: str) -> str:
        if name not in self.outputs:
            raise Refusal(
                f'The stack "{self.name}" has no output {name}, so its version has no'
                f" {purpose}; update the stack with `sam build && sam deploy`."
            )
        return self.outputs[name]

    def execution(self, arn: str) -> Execution:
        """The execution's current state."""
        response = self._step_functions.describe_execution(executionArn=arn)
        return Execution(response["status"], response.get("error", ""), response.get("cause", ""))

    def arn(self, kind: Kind[Any], name: str) -> str:
        """The ARN of an execution, whether it exists or not."""
        return f"{self._machine(kind).replace(':stateMachine:', ':execution:', 1)}:{name}"

    def find_execution(self, arn: str) -> Execution | None:
        """The execution's current state. None when it does not exist (any more)."""
        return unless_missing(self.execution, "ExecutionDoesNotExist", "InvalidArn", arn=arn)

    def stop(self, arn: str, cause: str) -> None:
        """Stop the execution. Does nothing when it is over."""
        self._step_functions.stop_execution(executionArn=arn, error="StoppedByCaller", cause=cause)

    def record[R: Record](self, kind: Kind[R], name: str) -> R | None:
        """The record of an execution, or None if there is none (yet)."""
        key = {"pk": f"{kind.key}#{name}", "sk": kind.key}
        return self._read(kind.record.from_item, key)

    def records[R: Record](
        self, kind: Kind[R], limit: int, statuses: Collection[str] = ()
    ) -> list[R]:
        """The newest `limit` of a kind, newest first. `statuses`, if any, selects by status."""
        # DynamoDB applies the filter after `Limit`, so small pages would need many requests.
        query = {**_newest(f"{kind.key}s"), "Limit": max(limit, 100) if statuses else limit}
        if statuses:
            query["FilterExpression"] = Attr("status").is_in(sorted(statuses))
        return [kind.record.from_item(item) for item in islice(self._items(query), limit)]

    def raw_keys(self, run_id: str) -> list[str]:
        """The keys of the raw outputs of the run's trials, in the order of the trials."""
        query = {"KeyConditionExpression": _trials_of(run_id), "ProjectionExpression": "raw_key"}
        return [item["raw_key"] for item in self._items(query) if item.get("raw_key")]

    def failed_trials(self, run_id: str) -> list[FailedTrial]:
        """The run's trials that have failed so far, without those of the warm-up."""
        names = {f"#{name}": name for name in ("sk", "reason", "arm", "client", "server")}
        query: dict[str, Any] = {
            "KeyConditionExpression": _trials_of(run_id),
            "FilterExpression": Attr("status").eq("failed"),
            "ProjectionExpression": ", ".join(names),
            "ExpressionAttributeNames": names,
            "ConsistentRead": True,
        }
        return [
            FailedTrial(
                str(item["sk"]),
                str(item.get("reason") or "no reason is known"),
                *(str(item[name]) for name in ("arm", "client", "server")),
            )
            for item in self._items(query)
            if not item["sk"].startswith("trial#0000#")
        ]

    def file(self, run_id: str, name: str) -> bytes | None:
        """A file of the run from the bucket. None when the run did not write it."""
        return self.content(f"runs/{run_id}/{name}")

    def content(self, key: str) -> bytes | None:
        """An object of the bucket. None when it does not exist."""
        response = unless_missing(
            self._s3.get_object, "NoSuchKey", "404", Bucket=self.bucket, Key=key
        )
        return None if response is None else response["Body"].read()

    def upload(self, key: str, content: bytes) -> None:
        """Write a JSON object to the bucket."""
        self._s3.put_object(
            Bucket=self.bucket, Key=key, Body=content, ContentType="application/json"
        )

    def link(self, key: str, seconds: int) -> str:
        """A presigned link, with which anybody can read the object for `seconds`."""
        # A bucket with a KMS key takes only signature version 4, which is valid for one host.
        # The global host would redirect to the Region's, so sign for the Region's.
        regional = Config(
            signature_version="s3v4",
            s3={"us_east_1_regional_endpoint": "regional", "addressing_style": "virtual"},
        )
        signing = _CONFIG.merge(regional)
        return self.session.client("s3", config=signing).generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=seconds
        )

    @property
    def has_temporary_credentials(self) -> bool:
        """Whether the caller's credentials belong to a session and expire with it."""
        credentials = self.session.get_credentials()
        return credentials is not None and bool(credentials.get_frozen_credentials().token)

    def baseline(self, name: str) -> Baseline | None:
        """The baseline of this name, or None."""
        return self._read(Baseline.from_item, _baseline_key(name))

    def baselines(self) -> list[Baseline]:
        """All named baselines, by name."""
        query = {**_newest("baselines"), "ScanIndexForward": True}
        return [Baseline.from_item(item) for item in self._items(query)]

    def set_baseline(self, baseline: Baseline, before: Baseline | None) -> bool:
        """Store the baseline in place of `before`, or of none.

        Returns whether it did. It does not if somebody else has changed the baseline in between.
        """
        unchanged: ConditionBase = Attr("pk").not_exists()
        if before is not None:
            # Earlier versions wrote one run.
            unchanged = Attr("run_ids").eq([*before.run_ids])
            if before.run_ids:
                unchanged |= Attr("run_id").eq(before.run_ids[0])
        try:
            self._table.put_item(
                Item={
                    **_baseline_key(baseline.name),
                    "name": baseline.name,
                    "run_ids": list(baseline.run_ids),
                    "set_at": baseline.set_at,
                    "gsi1pk": "baselines",
                    "gsi1sk": baseline.name,
                },
                ConditionExpression=unchanged,
            )
        except self._table.meta.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def remove_baseline(self, name: str) -> Baseline | None:
        """Remove the baseline and keep its run. Returns the baseline, or None without one."""
        item = self._table.delete_item(Key=_baseline_key(name), ReturnValues="ALL_OLD").get(
            "Attributes"
        )
        return None if not item else Baseline.from_item(item)

    def _read[R](self, of: Callable[[dict[str, Any]], R], key: dict[str, str]) -> R | None:
        """The record that the table has under a key, or None."""
        item = self._table.get_item(Key=key, ConsistentRead=True).get("Item")
        return None if item is None else of(item)

    def _items(self, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """All items that a query finds, page by page."""
        client = self._table.meta.client
        return paginated(client, "query", "Items", TableName=self._table.name, **query)


def _named_twice(kind: Kind[Any], name: str) -> Refusal:
    return Refusal(f'There already is a {kind.key} "{name}"; choose another --name.')


def _trials_of(run_id: str) -> ConditionBase:
    return Key("pk").eq(f"run#{run_id}") & Key("sk").begins_with("trial#")


def _newest(kind: str) -> dict[str, Any]:
    """A query of all records of a kind, such as `runs`, the newest or last first."""
    of_kind = Key("gsi1pk").eq(kind)
    return {"IndexName": "runs", "KeyConditionExpression": of_kind, "ScanIndexForward": False}


def _baseline_key(name: str) -> dict[str, str]:
    return {"pk": f"baseline#{name}", "sk": "baseline"}


def session_of_environment() -> boto3.Session:
    """A session in the Region that the environment or the profile names.

    Raises Refusal when there is none because a variable that names it is empty.
    """
    # Other AWS SDKs and tools read AWS_REGION. boto3 only reads AWS_DEFAULT_REGION.
    session = boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
    empty = [name for name in ("AWS_REGION", "AWS_DEFAULT_REGION") if os.environ.get(name) == ""]
    if empty and not session.region_name:
        raise Refusal(
            f"{listed(empty)} {'is' if len(empty) == 1 else 'are'} set and empty, so no AWS Region"
            f" is known; run `export {empty[0]}=us-east-1`, with the Region of your stack."
        )
    Patience(session)
    return session


def describe(cloudformation: Any, name: str) -> dict[str, Any] | None:
    """What `DescribeStacks` returns for a stack, by name or id; None if there is none.

    Raises Refusal for what cannot be a stack's name.
    """
    try:
        description: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if error_code(error) != "ValidationError":
            raise
        if "does not exist" not in error_message(error):
            raise Refusal(
                f'"{name}" cannot be a stack\'s name ({error_message(error)}); correct --stack.'
            ) from error
        return None
    return description


def values_of(description: Mapping[str, Any], kind: str) -> dict[str, str]:
    """The values of a kind, `Output` or `Parameter`, in the description of a stack, by name."""
    return {each[f"{kind}Key"]: each[f"{kind}Value"] for each in description.get(f"{kind}s", [])}


def client_of(session: boto3.Session, service: str, **options: Any) -> Any:
    """A client that gives up on a dead endpoint within seconds."""
    return session.client(service, config=_CONFIG, **options)  # type: ignore[call-overload]


def paginated(client: Any, operation: str, key: str, **request: Any) -> Iterator[Any]:
    """What an operation lists under a key, of all its pages."""
    for page in client.get_paginator(operation).paginate(**request):
        yield from page.get(key, ())


def _output(stack: str, outputs: Mapping[str, str], name: str) -> str:
    if name not in outputs:
        raise Refusal(
            f'The stack "{stack}" has no output {name}, so it is not a rackrate stack; name the'
            " right one with --stack."
        )
    return outputs[name]
