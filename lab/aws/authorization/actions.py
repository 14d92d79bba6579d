"""Which IAM actions on which resources a request needs.

The pairs are those of the Service Authorization Reference:
https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.aws.account import ACCOUNT_ID, arn

Need = tuple[str, str]
Parameters = Mapping[str, Any]

# IAM's prefix of a service, where it differs from the name of boto3's client.
_PREFIXES = {
    "stepfunctions": "states",
    "service-quotas": "servicequotas",
    "resourcegroupstaggingapi": "tag",
}


@dataclass(frozen=True)
class Request:
    """One API call: boto3's name of the service, the operation, and its parameters."""

    service: str
    operation: str
    parameters: Parameters

    @property
    def action(self) -> str:
        """The IAM action that has the operation's name."""
        return f"{_PREFIXES.get(self.service, self.service)}:{self.operation}"


def needs(request: Request) -> list[Need]:
    """Every action and resource ARN that must be allowed for the request to succeed.

    A service without an entry here gets the resource `*`, which only a statement on every
    resource allows.
    """
    derive = _SERVICES.get(request.service, _named)
    return [need for part in parts_of(request) for need in derive(part)]


def parts_of(request: Request) -> list[Request]:
    """The calls that IAM checks one by one: the parts of DynamoDB's transaction, or the request.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
    """
    if request.operation not in ("TransactWriteItems", "TransactGetItems"):
        return [request]
    return [
        Request(request.service, _TRANSACTION[kind], part)
        for item in request.parameters.get("TransactItems", [])
        for kind, part in item.items()
    ]


def _as_arn(name: str, service: str, kind: str) -> str:
    return name if name.startswith("arn:") else arn(service, f"{kind}{name}")


_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}


def _dynamodb(request: Request) -> Iterator[Need]:
    parameters = request.parameters
    if request.operation in ("BatchGetItem", "BatchWriteItem"):
        for table in parameters.get("RequestItems", {}):
            yield request.action, _table(table)
    elif parameters.get("IndexName"):
        yield request.action, f"{_table(parameters['TableName'])}/index/{parameters['IndexName']}"
    elif parameters.get("TableName"):
        yield request.action, _table(parameters["TableName"])
    elif parameters.get("ResourceArn"):
        yield request.action, parameters["ResourceArn"]
    else:
        yield request.action, "*"


def _table(name: str) -> str:
    return _as_arn(name, "dynamodb", "table/")


def _lambda(request: Request) -> Iterator[Need]:
    action = {"Invoke": "lambda:InvokeFunction", "InvokeAsync": "lambda:InvokeFunction"}.get(
        request.operation, request.action
    )
    name = request.parameters.get("FunctionName")
    if not name:
        yield action, "*"
        return
    resource = _as_arn(name, "lambda", "function:")
    qualifier = request.parameters.get("Qualifier")
    yield action, f"{resource}:{qualifier}" if qualifier else resource


def _eks(request: Request) -> Iterator[Need]:
    parameters, operation = request.parameters, request.operation
    cluster = parameters.get("clusterName") or parameters.get("name")
    if parameters.get("resourceArn"):
        yield request.action, parameters["resourceArn"]
        return
    if not cluster or operation in ("ListClusters", "DescribeClusterVersions"):
        yield request.action, "*"
        return
    if operation == "DescribeUpdate":
        # The cluster is its required resource; what is updated may be another.
        yield request.action, arn("eks", f"cluster/{cluster}")
    if parameters.get("nodegroupName") and operation != "CreateNodegroup":
        # The last part of a node group's ARN is an id that only EKS knows.
        yield request.action, arn("eks", f"nodegroup/{cluster}/{parameters['nodegroupName']}/id")
    elif parameters.get("addonName") and operation != "CreateAddon":
        yield request.action, arn("eks", f"addon/{cluster}/{parameters['addonName']}/id")
    elif parameters.get("principalArn") and operation != "CreateAccessEntry":
        name = parameters["principalArn"].rsplit("/", 1)[-1]
        entry = f"access-entry/{cluster}/role/{ACCOUNT_ID}/{name}/id"
        yield request.action, arn("eks", entry)
    else:
        yield request.action, arn("eks", f"cluster/{cluster}")


def _codebuild(request: Request) -> Iterator[Need]:
    parameters = request.parameters
    projects = [parameters[key] for key in ("projectName", "name") if parameters.get(key)]
    projects += parameters.get("names") or []
    builds = [*(parameters.get("ids") or []), *filter(None, [parameters.get("id")])]
    projects += [build.rsplit("/", 1)[-1].split(":", 1)[0] for build in builds]
    if not projects:
        yield request.action, "*"
    for project in dict.fromkeys(projects):
        yield request.action, _as_arn(project, "codebuild", "project/")


def _ecr(request: Request) -> Iterator[Need]:
    name = request.parameters.get("repositoryName")
    if request.operation == "DescribeRepositories":
        names = request.parameters.get("repositoryNames") or ["*"]
        yield from ((request.action, arn("ecr", f"repository/{name}")) for name in names)
    else:
        yield request.action, arn("ecr", f"repository/{name}") if name else "*"


def _sts(request: Request) -> Iterator[Need]:
    # GetCallerIdentity needs no permission, and no policy can forbid it.
    if request.operation != "GetCallerIdentity":
        yield request.action, request.parameters.get("RoleArn") or "*"


def _kms(request: Request) -> Iterator[Need]:
    key = request.parameters.get("KeyId")
    if not key or request.operation == "CreateKey":
        yield request.action, "*"
    elif key.startswith("arn:"):
        yield request.action, key
    else:
        yield request.action, arn("kms", key if key.startswith("alias/") else f"key/{key}")


def _logs(request: Request) -> Iterator[Need]:
    parameters = request.parameters
    name = parameters.get("logGroupName") or parameters.get("logGroupIdentifier")
    if not name:
        yield request.action, arn("logs", "log-group:*")
        return
    group = _as_arn(name, "logs", "log-group:").removesuffix(":*")
    stream = parameters.get("logStreamName")
    if request.operation in ("PutLogEvents", "GetLogEvents", "DeleteLogStream") and stream:
        yield request.action, f"{group}:log-stream:{stream}"
    else:
        yield request.action, f"{group}:*"


def _ssm(request: Request) -> Iterator[Need]:
    names = [request.parameters.get("Name"), *(request.parameters.get("Names") or [])]
    for name in filter(None, names):
        # The ARNs of AWS's own parameters have no account.
        account = "" if name.startswith("/aws/") else ACCOUNT_ID
        yield request.action, arn("ssm", f"parameter/{name.lstrip('/')}", account=account)


def _service_quotas(request: Request) -> Iterator[Need]:
    service, quota = (request.parameters.get(key) for key in ("ServiceCode", "QuotaCode"))
    yield request.action, arn("servicequotas", f"{service}/{quota}") if quota else "*"


def _scheduler(request: Request) -> Iterator[Need]:
    name = request.parameters.get("Name")
    group = request.parameters.get("GroupName") or "default"
    yield request.action, arn("scheduler", f"schedule/{group}/{name}") if name else "*"


def _ec2(request: Request) -> Iterator[Need]:
    template = request.parameters.get("LaunchTemplateId")
    describes = request.action.startswith("ec2:Describe")
    yield (
        request.action,
        arn("ec2", f"launch-template/{template}") if template and not describes else "*",
    )


_SERVICES: dict[str, Callable[[Request], Iterator[Need]]] = {
    "codebuild": _codebuild,
    "dynamodb": _dynamodb,
    "ec2": _ec2,
    "ecr": _ecr,
    "eks": _eks,
    "kms": _kms,
    "lambda": _lambda,
    "logs": _logs,
    "scheduler": _scheduler,
    "service-quotas": _service_quotas,
    "ssm": _ssm,
    "sts": _sts,
}


#: The resource of the other services' calls by its name, and the parameters that may have the name.
_NAMED = {
    "cloudformation": (arn("cloudformation", "stack/{}/*"), "StackName"),
    "events": (arn("events", "rule/{}"), "Rule", "Name"),
    "iam": (arn("iam", "role/{}", region=""), "RoleName"),
    "sns": ("{}", "TopicArn"),
    "stepfunctions": ("{}", "executionArn", "stateMachineArn", "mapRunArn", "resourceArn"),
}


def _named(request: Request) -> Iterator[Need]:
    resource, *keys = _NAMED.get(request.service, ("*",))
    name = next(filter(None, map(request.parameters.get, keys)), "*")
    is_whole = name == "*" or name.startswith("arn:")
    yield request.action, name if is_whole else resource.format(name)


# -- calls that AWS's services make with a role


def map_run_needs(state_machine_arn: str) -> list[Need]:
    """The calls that Step Functions makes with a state machine's role for a Distributed Map.

    https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
    """
    return [("states:StartExecution", state_machine_arn)]


def nested_execution_needs() -> list[Need]:
    """The calls on EventBridge that a role needs to wait for executions that it starts.

    Step Functions checks them when a state machine is created or updated.
    https://docs.aws.amazon.com/step-functions/latest/dg/stepfunctions-iam.html
    """
    rule = arn("events", "rule/StepFunctionsGetEventsForStepFunctionsExecutionRule")
    return [(f"events:{action}", rule) for action in ("PutTargets", "PutRule", "DescribeRule")]


def network_needs() -> list[Need]:
    """The calls that Lambda makes with a function's role to reach a VPC.

    Lambda checks that the role may make them when a function's configuration names a VPC.

    https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
    """
    interface = arn("ec2", "network-interface/eni-lambda")
    return [
        ("ec2:CreateNetworkInterface", interface),
        ("ec2:DescribeNetworkInterfaces", "*"),
        ("ec2:DeleteNetworkInterface", interface),
    ]


def launch_needs(template_id: str) -> list[Need]:
    """The calls on EC2 that a node group's update with a launch template needs of its caller.

    EKS tries a launch in the caller's name, with the condition key `ec2:LaunchTemplate`.

    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    resources = ("instance/*", "network-interface/*", "volume/*", f"launch-template/{template_id}")
    launches = [("ec2:RunInstances", arn("ec2", resource)) for resource in resources]
    return [*launches, ("ec2:CreateTags", arn("ec2", "instance/*"))]


def log_needs(group: str, stream: str) -> list[Need]:
    """The calls that Lambda makes with a function's role to deliver the function's log."""
    return [
        ("logs:CreateLogStream", arn("logs", f"log-group:{group}:*")),
        ("logs:PutLogEvents", arn("logs", f"log-group:{group}:log-stream:{stream}")),
    ]
