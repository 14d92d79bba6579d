"""Every change of moto's code that the lab makes while it runs, and what each one corrects.

The changes replace classes, methods and functions, many of them private, that moto may change in
any release. So they hold for one release: whoever installs another reads this list against it,
runs the tests of the emulated AWS, and changes `VERSION`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pkgutil import resolve_name
from typing import Any

import moto

from lab.aws import auto_scaling, cloud_trail, dynamodb, ecr, quotas
from lab.aws.authorization import authorizer as authorization
from lab.aws.authorization.authorizer import Authorizer
from lab.aws.awslambda import api as lambda_api
from lab.aws.awslambda.archives import Archives
from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.ec2 import (
    capacity_reservations,
    dependencies,
    launch_templates,
    limits,
    placement_groups,
    run_instances,
    terminations,
    topology,
)
from lab.aws.eks import control_plane_logs
from lab.aws.eks.clusters import Clusters
from lab.aws.event_bridge import EventRouter
from lab.aws.s3 import authorization as s3_authorization
from lab.aws.s3 import bucket_policies
from lab.aws.scheduler import schedules
from lab.aws.step_functions import api as step_functions
from lab.aws.step_functions import executions, interpreter, nested_executions
from lab.aws.step_functions.task_clients import TaskClients
from lab.errors import LabError

#: The release of moto that the changes are for.
VERSION = "5.2.5"

#: Where a class or module of moto is, a name in it, and what the name stands for from now on.
Patch = tuple[str, str, Any]

_DYNAMODB = "moto.dynamodb.models:DynamoDBBackend"
_ITEM = "moto.dynamodb.models.dynamo_type:Item"
_VALIDATORS = "moto.dynamodb.parsing.validators"
_EC2, _EC2_API = "moto.ec2.models:EC2Backend", "moto.ec2.responses:EC2Response"
_LAUNCH_TEMPLATE = "moto.ec2.models.launch_templates:LaunchTemplate"
_LAMBDA, _LAMBDA_API = "moto.awslambda.models", "moto.awslambda.responses:LambdaResponse"
_FUNCTION = f"{_LAMBDA}:LambdaFunction"
_QUOTAS = "moto.servicequotas"
_SCHEDULER = "moto.scheduler.models:EventBridgeSchedulerBackend"
_PARSER = "moto.stepfunctions.parser"
_STATES_API = "moto.stepfunctions.responses:StepFunctionResponse"
_ASL = f"{_PARSER}.asl"
_MAPS = f"{_ASL}.component.state.exec.state_map.iteration"
_ITEM_WORKER = "distributed_item_processor_worker:DistributedItemProcessorWorker"
_TASKS = f"{_ASL}.component.state.exec.state_task.service"
_NESTED = f"{_TASKS}.state_task_service_sfn:StateTaskServiceSfn"


def apply(patches: Iterable[Patch]) -> None:
    """Apply changes; those that are applied already are applied again. Raises LabError."""
    if moto.__version__ != VERSION:
        raise LabError(
            f"The lab changes moto {VERSION}, and moto {moto.__version__} is installed: install"
            f" that release, or read lab/aws/moto_patches.py against the other one."
        )
    for owner, name, replacement in patches:
        setattr(resolve_name(owner), name, replacement)


def _checked(check: Callable[..., None], owner: str, name: str) -> Patch:
    """A method that first runs a check with its arguments."""
    method = getattr(resolve_name(owner), name)

    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        check(self, *arguments, **named)
        return method(self, *arguments, **named)

    return owner, name, checked


def _given(function: Callable[..., Any], part: object) -> Callable[..., Any]:
    """A method whose function also gets a part of the Region, after the object."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return function(self, part, *arguments, **named)

    return method


def _cached(owner: str, name: str) -> Patch:
    """A function whose results are kept."""
    return owner, name, functools.cache(getattr(resolve_name(owner), name))


_MODULES = tuple(resolve_name("moto.backends:list_of_moto_modules")())
#: Each request reads the directory of moto's modules, and the methods of a class, again.
REQUESTS: Sequence[Patch] = (
    ("moto.backends", "list_of_moto_modules", lambda: _MODULES),
    _cached("moto.core.responses", "method_names_from_class"),
)

DYNAMODB: Sequence[Patch] = (
    # Two writes at once may both find that their condition holds, and a read may see half a write.
    ("moto.dynamodb.responses:DynamoHandler", "call_action", dynamodb.one_at_a_time),
    # A transaction copies a whole table.
    (_DYNAMODB, "transact_write_items", dynamodb.transact),
    # Each attribute of a response is converted several times, and an item for each of its names.
    ("moto.core.serialize:JSONSerializer", "_serialize_type_structure", dynamodb.structure),
    (_ITEM, "project", dynamodb.project),
    # A whole item is measured again with each attribute.
    ("moto.dynamodb.models.dynamo_type:LimitedSizeDict", "__setitem__", dynamodb.set_attribute),
    # An update is parsed twice, and its parts are checked again.
    ("moto.dynamodb.parsing.expressions:UpdateExpressionParser", "make", dynamodb.parse),
    (f"{_VALIDATORS}:ActionCountValidator", "traverse", dynamodb.check_once),
    (f"{_VALIDATORS}:OverlappingPathsValidator", "traverse", dynamodb.check_once),
)

#: Operations that moto lacks, and the values of an account's quotas.
QUOTAS: Sequence[Patch] = (
    (f"{_QUOTAS}.models:ServiceQuotasBackend", "get_service_quota", quotas.get_service_quota),
    (
        f"{_QUOTAS}.responses:ServiceQuotasResponse",
        "get_aws_default_service_quota",
        quotas.get_aws_default_service_quota,
    ),
    (_LAMBDA_API, "get_account_settings", quotas.get_account_settings),
    ("moto.awslambda.urls", "url_paths", quotas.LAMBDA_PATHS),
)

#: Operations that moto lacks.
CAPACITY_RESERVATIONS: Sequence[Patch] = (
    (_EC2_API, "create_capacity_reservation", capacity_reservations.create),
    (_EC2_API, "describe_capacity_reservations", capacity_reservations.describe),
    (_EC2_API, "cancel_capacity_reservation", capacity_reservations.cancel),
)

#: Operations that moto lacks.
PLACEMENT_GROUPS: Sequence[Patch] = (
    (_EC2_API, "create_placement_group", placement_groups.create_placement_group),
    (_EC2_API, "describe_placement_groups", placement_groups.describe_placement_groups),
    (_EC2_API, "delete_placement_group", placement_groups.delete_placement_group),
)

EC2: Sequence[Patch] = (
    *CAPACITY_RESERVATIONS,
    *PLACEMENT_GROUPS,
    # moto lacks it.
    (_EC2_API, "describe_instance_topology", topology.describe_instance_topology),
    # Placement, network interfaces and capacity are neither checked nor kept.
    (_EC2_API, "run_instances", run_instances.run_instances),
    (
        "moto.ec2.models.elastic_network_interfaces:NetworkInterface",
        "attachment",
        property(run_instances.attachment),
    ),
    # A version cannot be made of another one; no version can be deleted, or is missing.
    (_EC2_API, "create_launch_template_version", launch_templates.create),
    (_EC2_API, "delete_launch_template_versions", launch_templates.delete),
    (_LAUNCH_TEMPLATE, "create_version", launch_templates.number),
    (_LAUNCH_TEMPLATE, "get_version", launch_templates.find),
    # Quotas are not enforced.
    _checked(limits.check_vpcs, _EC2, "create_vpc"),
    _checked(limits.check_addresses, _EC2, "allocate_address"),
    _checked(limits.check_nat_gateways, _EC2, "create_nat_gateway"),
    # What is in use can be deleted.
    _checked(dependencies.check_subnet, _EC2, "delete_subnet"),
    _checked(dependencies.check_security_group, _EC2, "delete_security_group"),
    _checked(dependencies.check_vpc, _EC2, "delete_vpc"),
    # A NAT gateway leaves its network interface; an interface endpoint is deleted at once.
    _checked(dependencies.release_interface, _EC2, "delete_nat_gateway"),
    (_EC2, "delete_vpc_endpoints", dependencies.delete_endpoints),
)

#: A child's names are those of no API, and the child outlives its parent.
NESTED_EXECUTIONS: Sequence[Patch] = (
    (_NESTED, "_eval_service_task", nested_executions.eval_service_task),
    (_NESTED, "_eval_integration_pattern", nested_executions.eval_integration_pattern),
    (_NESTED, "_from_error", nested_executions.from_error),
    (
        f"{_TASKS}.state_task_service:StateTaskService",
        "_after_eval_execution",
        nested_executions.after_eval_execution,
    ),
)

#: A definition is parsed for each execution, and a JSONPath for each state, for which the tables of
#: the grammar are recreated. A parsed path has no state.
READ_ONCE: Sequence[Patch] = (
    (
        f"{_ASL}.parse.asl_parser:AmazonStateLanguageParser",
        "parse",
        staticmethod(interpreter.parse),
    ),
    _cached(f"{_ASL}.utils.json_path", "parse"),
    _cached(f"{_ASL}.component.common.path.result_path", "parse"),
)

INTERPRETER: Sequence[Patch] = (
    *NESTED_EXECUTIONS,
    *READ_ONCE,
    # Items of a Map Run recurse, go on in a stopped execution, and never fail the Map Run.
    (f"{_MAPS}.itemprocessor.{_ITEM_WORKER}", "_eval_pool", interpreter.eval_pool),
    # A wait takes up to a second more.
    (
        f"{_ASL}.component.state.wait.wait_function.wait_function:WaitFunction",
        "_wait_interval",
        interpreter.wait_interval,
    ),
    # The API has checked the definition.
    (
        f"{_PARSER}.models:StepFunctionsParserBackend",
        "_validate_definition",
        staticmethod(lambda definition: None),
    ),
    # Names, inputs and redrives are not checked; children, causes and pages are missing.
    (_STATES_API, "start_execution", step_functions.start_execution),
    (_STATES_API, "stop_execution", step_functions.stop_execution),
    (_STATES_API, "redrive_execution", step_functions.redrive_execution),
    (_STATES_API, "send_task_failure", step_functions.send_task_failure),
    (_STATES_API, "describe_execution", step_functions.describe_execution),
    (_STATES_API, "list_executions", step_functions.list_executions),
    (_STATES_API, "get_execution_history", step_functions.get_execution_history),
)

OTHERS: Sequence[Patch] = (
    # moto lacks it.
    ("moto.cloudtrail.responses:CloudTrailResponse", "lookup_events", cloud_trail.lookup_events),
    # A statement whose condition does not hold denies.
    ("moto.s3.models:FakeBucket", "get_permission", bucket_policies.get_permission),
    # Roles that are created meanwhile break the search for one.
    ("moto.iam.models:IAMBackend", "get_roles", lambda self: list(self.roles.values())),
    # EKS delivers a cluster's last lines after its log group is deleted.
    ("moto.logs.models:LogsBackend", "delete_log_group", control_plane_logs.delete_log_group),
    # Expressions, targets and roles are not checked.
    (_SCHEDULER, "create_schedule", schedules.create_schedule),
    (_SCHEDULER, "update_schedule", schedules.update_schedule),
    # A function's log settings are not kept.
    (_FUNCTION, "get_configuration", lambda_api.get_configuration),
)


def of_region(
    *,
    endpoint_url: str,
    clusters: Clusters,
    authorizer: Authorizer,
    archives: Archives,
    runtime: LambdaRuntime,
    router: EventRouter,
    publish_image: Callable[[str], None],
    replace_nodes: Callable[[Sequence[str]], None],
) -> Iterator[Patch]:
    """All changes for a Region of these parts.

    `publish_image` gets the name of each pushed image, and `replace_nodes` the ids of instances
    that are terminated.
    """
    for patches in (REQUESTS, DYNAMODB, QUOTAS, EC2, INTERPRETER, OTHERS):
        yield from patches
    # Callers' permissions are not checked, by services in general and by S3.
    call_action = _given(authorization.call_action, authorizer)
    yield "moto.core.responses:BaseResponse", "call_action", call_action
    authorize = _given(s3_authorization.authorize, authorizer)
    yield "moto.s3.responses:S3Response", "_authenticate_and_authorize_s3_action", authorize
    # moto lacks it.
    describe = _given(auto_scaling.describe_scaling_activities, clusters)
    yield "moto.autoscaling.responses:AutoScalingResponse", "describe_scaling_activities", describe
    # Nobody learns of pushed images and terminated instances.
    yield "moto.ecr.models:ECRBackend", "put_image", _given(ecr.put_image, publish_image)
    terminate = _given(terminations.terminate_instances, replace_nodes)
    yield _EC2, "terminate_instances", terminate
    # Functions do not run, and their roles' use of a network is not checked.
    invoke = _given(lambda_api.invoke, runtime)
    yield "moto.awslambda_simple.models:LambdaSimpleBackend", "invoke", invoke
    yield _FUNCTION, "__init__", _given(lambda_api.create, runtime)
    yield _FUNCTION, "update_configuration", _given(lambda_api.update_configuration, runtime)
    functions = f"{_LAMBDA}:LambdaBackend"
    yield functions, "delete_function", _given(lambda_api.delete_function, runtime)
    yield functions, "publish_layer_version", _given(lambda_api.publish_layer_version, archives)
    # Code is read from S3 into memory, and unpacked for each worker.
    yield _FUNCTION, "_set_function_code", _given(lambda_api.set_function_code, archives)
    yield _LAMBDA, "_s3_content", archives.of_object
    # Definitions are hardly checked, and permissions for nested executions and Map Runs not at all.
    for name in ("create_state_machine", "update_state_machine"):
        yield _STATES_API, name, _given(getattr(step_functions, name), authorizer)
    component = f"{_MAPS}.distributed_iteration_component:DistributedIterationComponent"
    yield component, "_map_run", _given(interpreter.map_run, authorizer)
    # Executions hang after an error, may end twice, and report their end to nobody.
    yield f"{_PARSER}.models", "Execution", executions.announcing(router)
    # Tasks call AWS itself, with the caller's own credentials.
    client = TaskClients(endpoint_url).client
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith(_PARSER) and hasattr(module, "boto_client_for"):
            yield name, "boto_client_for", client
