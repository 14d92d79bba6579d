"""A served Region that records calls to the machine in memory. All other parts are real."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import textwrap
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.authorization.audit import RECORD_FILE, Call, read_calls
from lab.aws.ec2.placement_groups import GROUPS, PlacementGroup
from lab.aws.eks.infrastructure import NodeLaunchError, NodeSpec
from lab.aws.iam.identity import assume_role
from lab.aws.server import Region
from lab.faults import Injected, inject
from tests.waiting import HUNG_SECONDS

NOTHING: Mapping[str, str] = {}
CAPABILITIES = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]


def group_of_another_account(name: str = "") -> PlacementGroup:
    """A cluster placement group that another account made and shares."""
    name = name or f"g-{uuid.uuid4().hex[:8]}"
    return GROUPS.add(PlacementGroup(name, "222222222222", REGION, strategy="cluster"))


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class RecordedCluster:
    """A control plane that only records its calls."""

    name: str
    endpoint: str = "https://127.0.0.1:6443"
    certificate_authority: str = "-----BEGIN CERTIFICATE-----\nrecorded\n"
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    terminated: list[str] = field(default_factory=list)
    stopped: bool = False
    version: str | None = None
    fail_with: str | None = None
    # The version and the configuration of each add-on; a rollout waits for the event.
    addons: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    rollout_fails: Exception | None = None
    let_roll_out: threading.Event = field(default_factory=_set_event)

    def launch_nodes(self, specs: Sequence[NodeSpec]) -> None:
        if self.fail_with:
            raise NodeLaunchError(self.fail_with)
        self.nodes.update({spec.name: spec for spec in specs})

    def terminate_nodes(self, names: Sequence[str]) -> None:
        self.terminated += names
        for name in names:
            self.nodes.pop(name, None)

    def roll_out(self, addon: str, version: str, values: Mapping[str, Any], conflicts: str) -> None:
        self.let_roll_out.wait()
        if self.rollout_fails is not None and conflicts == "NONE":
            raise self.rollout_fails
        self.addons[addon] = (version, dict(values))

    def remove_addon(self, addon: str) -> None:
        del self.addons[addon]

    def upgrade(self, version: str) -> None:
        self.version = version

    def stop(self) -> None:
        self.stopped = True


@dataclass
class RecordedInfrastructure:
    """Infrastructure that allocates blocks in order and records the clusters."""

    clusters: dict[str, RecordedCluster] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    fail_nodes_with: str | None = None
    #: The URL of the API of the clusters that are created; None for one that nobody serves.
    endpoint: str | None = None
    images: list[str] = field(default_factory=list)
    released: list[ipaddress.IPv4Network] = field(default_factory=list)

    def publish_image(self, reference: str) -> None:
        self.images.append(reference)

    def release_block(self, block: ipaddress.IPv4Network) -> None:
        self.released.append(block)

    def create_cluster(self, **request: Any) -> RecordedCluster:
        self.requests.append(request)
        cluster = RecordedCluster(request["name"], fail_with=self.fail_nodes_with)
        cluster.endpoint = self.endpoint or cluster.endpoint
        self.clusters[request["name"]] = cluster
        return cluster

    def allocate_block(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        with self._lock:
            number = self._next[subnet_cidr] = self._next.get(subnet_cidr, 0) + 1
            blocks = list(ipaddress.IPv4Network(subnet_cidr).subnets(new_prefix=26))
            if number < len(blocks):
                return blocks[number]
            free = [block for block in self.released if block in blocks]
            if not free:
                raise NodeLaunchError(f"Subnet {subnet_cidr} has no free block")
            self.released.remove(free[0])
            return free[0]


@dataclass
class Lab:
    """The Region, with helpers for the tests."""

    region: Region
    backend: RecordedInfrastructure
    state_directory: Path

    def __post_init__(self) -> None:
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,  # type: ignore[call-overload]
                endpoint_url=self.region.endpoint_url,
                region_name="us-east-1",
                aws_access_key_id=self.region.access_key_id,
                aws_secret_access_key=self.region.secret_access_key,
                config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
            )
        return self._clients[service]

    def fault(self, name: str, **options: Any) -> AbstractContextManager[Injected]:
        """Inject a fault while a context lasts; see `lab.faults.inject`."""
        return inject(name, endpoint_url=self.region.endpoint_url, **options)

    @property
    def status(self) -> dict[str, str]:
        """What `lab.stack` needs to know of a lab."""
        return {
            "endpoint_url": self.region.endpoint_url,
            "region": REGION,
            "access_key_id": self.region.access_key_id,
            "secret_access_key": self.region.secret_access_key,
        }

    def environment(self) -> dict[str, str]:
        """The environment of a child process whose user has the Region instead of AWS."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return {
            **inherited,
            "AWS_ENDPOINT_URL": self.region.endpoint_url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,  # which the aws command reads
            "AWS_ACCESS_KEY_ID": self.region.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.region.secret_access_key,
        }

    def role(
        self,
        service: str = "lambda.amazonaws.com",
        *statements: dict[str, Any],
        boundary: str | None = None,
    ) -> str:
        """Create a role with these statements. Without any it may do everything.

        A service may assume it for this account only, as those of the project's templates.
        """
        trust = {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": service},
            "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        limit = {"PermissionsBoundary": boundary} if boundary else {}
        response = self.client("iam").create_role(
            RoleName=f"role-{uuid.uuid4().hex[:12]}", AssumeRolePolicyDocument=document, **limit
        )
        self.permit(response["Role"]["Arn"], *statements or (allow("*", "*"),))
        return str(response["Role"]["Arn"])

    def policy(self, *statements: dict[str, Any]) -> str:
        """Create a managed policy. Returns its ARN."""
        response = self.client("iam").create_policy(
            PolicyName=f"policy-{uuid.uuid4().hex[:8]}",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}),
        )
        return str(response["Policy"]["Arn"])

    def table(self, *keys: str, **settings: Any) -> str:
        """Create a table with one or two keys, by default `pk`. Returns its name."""
        name = f"table-{uuid.uuid4().hex[:8]}"
        keys = keys or ("pk",)
        request = {
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in keys],
            "KeySchema": key_schema(*keys),
            **settings,
        }
        self.client("dynamodb").create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST", **request
        )
        return name

    def permit(self, role_arn: str, *statements: dict[str, Any]) -> None:
        """Replace a role's permissions."""
        self.client("iam").put_role_policy(
            RoleName=role_arn.rsplit("/", 1)[-1],
            PolicyName="test",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}),
        )

    def as_role(self, role_arn: str, service: str, attempts: int = 1, **config: Any) -> Any:
        """A client with the role's credentials."""
        keys = assume_role(role_arn, "test")
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.region.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=keys.access_key_id,
            aws_secret_access_key=keys.secret_access_key,
            aws_session_token=keys.session_token,
            config=Config(
                s3={"addressing_style": "path"}, retries={"total_max_attempts": attempts}, **config
            ),
        )

    def function(self, code: str, files: Mapping[str, str] = NOTHING, **settings: Any) -> str:
        """Create a function with index.py from `code` and more files. Returns its name."""
        name = f"fn-{uuid.uuid4().hex[:12]}"
        settings = {"Timeout": 10, "MemorySize": 256, **settings}
        self.client("lambda").create_function(
            FunctionName=name,
            Runtime="python3.13",
            Handler="index.handler",
            Role=settings.pop("Role", None) or self.role(),
            Code={"ZipFile": archive(code, **files)},
            **settings,
        )
        return name

    def bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client("s3").create_bucket(Bucket=name)
        return name

    def invoke(self, function: str, **event: Any) -> Any:
        """What a function returns for an event, or its error."""
        response = self.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
        return json.loads(response["Payload"].read())

    def log(self, function: str) -> str:
        """What a function's processes have printed, with Lambda's own lines; empty at first."""
        path = self.state_directory / "lambda" / "logs" / f"{function}.log"
        return path.read_text() if path.exists() else ""

    def log_of_ended(self, function: str) -> str:
        """What a function has printed when each of its invocations has ended.

        A custom resource's function answers CloudFormation before it ends, so a stack may be
        complete before the last lines are here.
        """
        return eventually(
            lambda: self.log(function), lambda text: text.count("START ") == text.count("END ")
        )

    def calls(self, role_arn: str) -> list[Call]:
        """The calls that a role made so far."""
        name = role_arn.rsplit("/", 1)[-1]
        calls = read_calls(self.state_directory / RECORD_FILE)
        return [call for call in calls if call.role == name]

    def rule(self, function: str, **settings: Any) -> None:
        """Create a rule of EventBridge, called as the function, that may invoke it."""
        events = self.client("events")
        rule = events.put_rule(Name=function, **settings)["RuleArn"]
        events.put_targets(Rule=function, Targets=[{"Id": "a", "Arn": function_arn(function)}])
        self.client("lambda").add_permission(
            FunctionName=function,
            StatementId="events",
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
            SourceArn=rule,
        )

    def stored(self, key: str, body: str | bytes) -> str:
        """Store an object in a bucket of its own. Returns the bucket's name."""
        name = self.bucket()
        self.client("s3").put_object(Bucket=name, Key=key, Body=body)
        return name

    def state_machine(self, definition: dict[str, Any], role: str | None = None) -> str:
        response = self.client("stepfunctions").create_state_machine(
            name=f"machine-{uuid.uuid4().hex[:12]}",
            definition=json.dumps(definition),
            roleArn=role or self.role("states.amazonaws.com"),
        )
        return str(response["stateMachineArn"])

    def execute(self, definition: dict[str, Any], data: str = "{}") -> dict[str, Any]:
        """Run a definition to its end."""
        states = self.client("stepfunctions")
        arn = states.start_execution(stateMachineArn=self.state_machine(definition), input=data)
        return self.finished(arn["executionArn"])

    def finished(self, execution_arn: str) -> dict[str, Any]:
        states = self.client("stepfunctions")
        return eventually(
            lambda: states.describe_execution(executionArn=execution_arn),
            lambda execution: execution["status"] != "RUNNING",
        )

    def stack(
        self, template: str, parameters: Mapping[str, str] = NOTHING, **request: Any
    ) -> dict[str, Any]:
        """Create a stack and wait until its status is final."""
        name = request.pop("StackName", f"s-{uuid.uuid4().hex[:8]}")
        stack_id = self.client("cloudformation").create_stack(
            StackName=name,
            TemplateBody=textwrap.dedent(template),
            Parameters=parameter_list(parameters),
            Capabilities=CAPABILITIES,
            **request,
        )["StackId"]
        return self.settled(stack_id)

    def created(
        self, template: str, parameters: Mapping[str, str] = NOTHING, **request: Any
    ) -> dict[str, str]:
        """Create a stack, which must succeed. Returns its outputs, StackId and StackName."""
        stack = self.stack(template, parameters, **request)
        assert stack["StackStatus"] == "CREATE_COMPLETE", self.reasons(stack["StackId"])
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        return {**outputs, "StackId": stack["StackId"], "StackName": stack["StackName"]}

    def update(
        self, stack_id: str, template: str | None = None, parameters: Mapping[str, str] = NOTHING
    ) -> str:
        """Update a stack, without a template by its own. Returns the status when it is final."""
        body = (
            {"UsePreviousTemplate": True}
            if template is None
            else {"TemplateBody": textwrap.dedent(template)}
        )
        self.client("cloudformation").update_stack(
            StackName=stack_id,
            Parameters=parameter_list(parameters),
            Capabilities=CAPABILITIES,
            **body,
        )
        return str(self.settled(stack_id)["StackStatus"])

    def settled(self, stack_id: str) -> dict[str, Any]:
        return eventually(
            lambda: self.client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"][0],
            lambda stack: not stack["StackStatus"].endswith("IN_PROGRESS"),
        )

    def delete(self, stack_id: str) -> dict[str, Any]:
        self.client("cloudformation").delete_stack(StackName=stack_id)
        return eventually(
            lambda: self.client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"][0],
            lambda stack: stack["StackStatus"] in ("DELETE_COMPLETE", "DELETE_FAILED"),
        )

    def resources(self, stack_id: str) -> dict[str, str]:
        """The physical ids of a stack's resources, by their logical ids."""
        listing = self.client("cloudformation").list_stack_resources(StackName=stack_id)
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in listing["StackResourceSummaries"]
        }

    def reasons(self, stack_id: str, status: str = "FAILED") -> dict[str, str]:
        """The reasons of a stack's events with this status, by logical id."""
        events = self.client("cloudformation").describe_stack_events(StackName=stack_id)
        return {
            event["LogicalResourceId"]: event.get("ResourceStatusReason", "")
            for event in events["StackEvents"]
            if event["ResourceStatus"].endswith(status)
        }


def function_arn(name: str) -> str:
    """The ARN of a function."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{name}"


def key_schema(*keys: str) -> list[dict[str, str]]:
    """The keys of a table or of an index in DynamoDB's form."""
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, kinds, strict=False)]


def parameter_list(parameters: Mapping[str, str]) -> list[dict[str, str]]:
    """Parameters in CloudFormation's form."""
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]


def task(function: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    """A state that invokes a function with a payload, by default with its own input."""
    data = {"Payload.$": "$"} if payload is None else {"Payload": payload}
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": function, **data},
        "OutputPath": "$.Payload",
        **more,
    }


def allow(actions: str | list[str], resources: str | list[str], **more: Any) -> dict[str, Any]:
    """A statement of a policy."""
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def archive(code: str, **files: str) -> bytes:
    """A function's zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, text in {"index.py": code, **files}.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            target.writestr(entry, textwrap.dedent(text))
    return content.getvalue()


def eventually[T](get: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Call `get` until its answer is good. Fails at the deadline with the last answer."""
    deadline = time.monotonic() + HUNG_SECONDS
    while True:
        result = get()
        if good(result):
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"still {result!r}")
        time.sleep(0.05)
