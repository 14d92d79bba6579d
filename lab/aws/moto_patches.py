"""Every change of moto's code that the lab makes while it runs, and what each one corrects.

The changes replace classes, methods and functions, many of them private, that moto may change in
any release. So they hold for one release: whoever installs another reads this list against it,
runs the tests of the emulated AWS, and changes `VERSION`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import moto
from moto import backends
from moto.autoscaling.responses import AutoScalingResponse
from moto.awslambda import models as lambda_models
from moto.awslambda import urls as lambda_urls
from moto.awslambda.models import LambdaBackend, LambdaFunction
from moto.awslambda.responses import LambdaResponse
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.cloudtrail.responses import CloudTrailResponse
from moto.core import responses
from moto.core.responses import BaseResponse
from moto.core.serialize import JSONSerializer
from moto.core.utils import method_names_from_class
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]
from moto.dynamodb.parsing.validators import ActionCountValidator, OverlappingPathsValidator
from moto.dynamodb.responses import DynamoHandler
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.ec2.responses import EC2Response
from moto.ecr.models import ECRBackend
from moto.iam.models import IAMBackend
from moto.logs.models import LogsBackend
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response
from moto.scheduler.models import EventBridgeSchedulerBackend
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.stepfunctions.parser import models as step_functions_models
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
    distributed_iteration_component,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
    distributed_item_processor_worker,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_sfn,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import (  # noqa: E501
    StateTaskService,
)
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse

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

#: The class or module, the name in it, and what the name stands for from now on.
Patch = tuple[Any, str, Any]


def apply(patches: Iterable[Patch]) -> None:
    """Make changes; those that are made already are made again. Raises LabError."""
    if moto.__version__ != VERSION:
        raise LabError(
            f"The lab changes moto {VERSION}, and moto {moto.__version__} is installed: install"
            f" that release, or read lab/aws/moto_patches.py against the other one."
        )
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)


def _checked(check: Callable[..., None], owner: type, name: str) -> Patch:
    """A method that first runs a check with its arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        check(self, *arguments, **named)
        return method(self, *arguments, **named)

    return owner, name, checked


_MODULES = tuple(backends.list_of_moto_modules())
#: Read once what moto reads for each request: its modules' directory, and a class's methods.
REQUESTS: Sequence[Patch] = (
    (backends, "list_of_moto_modules", lambda: _MODULES),
    (responses, "method_names_from_class", functools.cache(method_names_from_class)),
)
DYNAMODB: Sequence[Patch] = (
    # Two writes at once may both find that their condition holds, and a read may see half a write.
    (DynamoHandler, "call_action", dynamodb.one_at_a_time),
    # A transaction copies a whole table.
    (DynamoDBBackend, "transact_write_items", dynamodb.transact),
    # Each attribute of a response is converted several times, and an item for each of its names.
    (JSONSerializer, "_serialize_type_structure", dynamodb.structure),
    (Item, "project", dynamodb.project),
    # A whole item is measured again with each attribute.
    (LimitedSizeDict, "__setitem__", dynamodb.set_attribute),
    # An update is parsed twice, and its parts are checked again.
    (UpdateExpressionParser, "make", dynamodb.parse),
    (ActionCountValidator, "traverse", dynamodb.check_once),
    (OverlappingPathsValidator, "traverse", dynamodb.check_once),
)

#: Operations that moto lacks, and the values of an account's quotas.
QUOTAS: Sequence[Patch] = (
    (ServiceQuotasBackend, "get_service_quota", quotas.get_service_quota),
    (
        ServiceQuotasResponse,
        "get_aws_default_service_quota",
        quotas.get_aws_default_service_quota,
    ),
    (LambdaResponse, "get_account_settings", quotas.get_account_settings),
    (
        lambda_urls,
        "url_paths",
        {**lambda_urls.url_paths, quotas.ACCOUNT_SETTINGS_PATH: LambdaResponse.dispatch},
    ),
)

#: Operations that moto lacks.
CAPACITY_RESERVATIONS: Sequence[Patch] = (
    (EC2Response, "create_capacity_reservation", capacity_reservations.create),
    (EC2Response, "describe_capacity_reservations", capacity_reservations.describe),
    (EC2Response, "cancel_capacity_reservation", capacity_reservations.cancel),
)

#: Operations that moto lacks.
PLACEMENT_GROUPS: Sequence[Patch] = (
    (EC2Response, "create_placement_group", placement_groups.create_placement_group),
    (EC2Response, "describe_placement_groups", placement_groups.describe_placement_groups),
    (EC2Response, "delete_placement_group", placement_groups.delete_placement_group),
)

EC2: Sequence[Patch] = (
    *CAPACITY_RESERVATIONS,
    *PLACEMENT_GROUPS,
    # moto lacks it.
    (EC2Response, "describe_instance_topology", topology.describe_instance_topology),
    # Placement, network interfaces and capacity are neither checked nor kept.
    (EC2Response, "run_instances", run_instances.run_instances),
    (NetworkInterface, "attachment", property(run_instances.attachment)),
    # A version cannot be made of another one; no version can be deleted, or is missing.
    (EC2Response, "create_launch_template_version", launch_templates.create),
    (EC2Response, "delete_launch_template_versions", launch_templates.delete),
    (LaunchTemplate, "create_version", launch_templates.number),
    (LaunchTemplate, "get_version", launch_templates.find),
    # Quotas are not enforced.
    _checked(limits.check_vpcs, EC2Backend, "create_vpc"),
    _checked(limits.check_addresses, EC2Backend, "allocate_address"),
    _checked(limits.check_nat_gateways, EC2Backend, "create_nat_gateway"),
    # What is in use can be deleted.
    _checked(dependencies.check_subnet, EC2Backend, "delete_subnet"),
    _checked(dependencies.check_security_group, EC2Backend, "delete_security_group"),
    _checked(dependencies.check_vpc, EC2Backend, "delete_vpc"),
    # A NAT gateway leaves its network interface; an interface endpoint is gone at once.
    _checked(dependencies.release_interface, EC2Backend, "delete_nat_gateway"),
    (EC2Backend, "delete_vpc_endpoints", dependencies.delete_endpoints),
)

_ITEM_WORKER = distributed_item_processor_worker.DistributedItemProcessorWorker
_SFN = state_task_service_sfn.StateTaskServiceSfn
#: A child's names are those of no API, and the child outlives its parent.
NESTED_EXECUTIONS: Sequence[Patch] = (
    (_SFN, "_eval_service_task", nested_executions.eval_service_task),
    (_SFN, "_eval_integration_pattern", nested_executions.eval_integration_pattern),
    (_SFN, "_from_error", nested_executions.from_error),
    (StateTaskService, "_after_eval_execution", nested_executions.after_eval_execution),
)

#: A definition is parsed for each execution, and a JSONPath for each state, for which the tables of
#: the grammar are made anew. A parsed path has no state.
READ_ONCE: Sequence[Patch] = (
    (AmazonStateLanguageParser, "parse", staticmethod(interpreter.parse)),
    (json_path, "parse", functools.cache(json_path.parse)),  # type: ignore[attr-defined]
    (result_path, "parse", functools.cache(result_path.parse)),  # type: ignore[attr-defined]
)

INTERPRETER: Sequence[Patch] = (
    *NESTED_EXECUTIONS,
    *READ_ONCE,
    # Items of a Map Run recurse, go on in a stopped execution, and never fail the Map Run.
    (_ITEM_WORKER, "_eval_pool", interpreter.eval_pool),
    # A wait takes up to a second more.
    (WaitFunction, "_wait_interval", interpreter.wait_interval),
    # The API has checked the definition.
    (StepFunctionsParserBackend, "_validate_definition", staticmethod(lambda definition: None)),
    # Names, inputs and redrives are not checked; children, causes and pages are missing.
    (StepFunctionResponse, "start_execution", step_functions.start_execution),
    (StepFunctionResponse, "stop_execution", step_functions.stop_execution),
    (StepFunctionResponse, "redrive_execution", step_functions.redrive_execution),
    (StepFunctionResponse, "send_task_failure", step_functions.send_task_failure),
    (StepFunctionResponse, "describe_execution", step_functions.describe_execution),
    (StepFunctionResponse, "list_executions", step_functions.list_executions),
    (StepFunctionResponse, "get_execution_history", step_functions.get_execution_history),
)

OTHERS: Sequence[Patch] = (
    # moto lacks it.
    (CloudTrailResponse, "lookup_events", cloud_trail.lookup_events),
    # A statement whose condition does not hold denies.
    (FakeBucket, "get_permission", bucket_policies.get_permission),
    # Roles that are created meanwhile break the search for one.
    (IAMBackend, "get_roles", lambda self: list(self.roles.values())),
    # EKS delivers a cluster's last lines after its log group is deleted.
    (LogsBackend, "delete_log_group", control_plane_logs.delete_log_group),
    # Expressions, targets and roles are not checked.
    (EventBridgeSchedulerBackend, "create_schedule", schedules.create_schedule),
    (EventBridgeSchedulerBackend, "update_schedule", schedules.update_schedule),
    # A function's log settings are not kept.
    (LambdaFunction, "get_configuration", lambda_api.get_configuration),
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
    yield BaseResponse, "call_action", authorization.authorizing(authorizer)
    authorize = s3_authorization.authorizing(authorizer)
    yield S3Response, "_authenticate_and_authorize_s3_action", authorize
    # moto lacks it.
    describe = auto_scaling.describing(clusters)
    yield AutoScalingResponse, "describe_scaling_activities", describe
    # Nobody learns of pushed images and terminated instances.
    yield ECRBackend, "put_image", ecr.publishing(publish_image)
    yield EC2Backend, "terminate_instances", terminations.terminating(replace_nodes)
    # Functions do not run, and their roles' use of a network is not checked.
    yield LambdaSimpleBackend, "invoke", lambda_api.invoking(runtime)
    yield LambdaFunction, "__init__", lambda_api.creating(runtime)
    yield LambdaFunction, "update_configuration", lambda_api.updating(runtime)
    yield LambdaBackend, "delete_function", lambda_api.deleting(runtime)
    # Code is read from S3 into memory, and unpacked for each worker.
    yield LambdaFunction, "_set_function_code", lambda_api.storing(archives)
    yield lambda_models, "_s3_content", archives.of_object
    # Definitions are hardly checked, and permissions for nested executions and Map Runs not at all.
    yield StepFunctionResponse, "create_state_machine", step_functions.creating(authorizer)
    yield StepFunctionResponse, "update_state_machine", step_functions.updating(authorizer)
    distributed = distributed_iteration_component.DistributedIterationComponent
    yield distributed, "_map_run", interpreter.checked_map_run(authorizer)
    # Executions hang after an error, may end twice, and tell nobody of their end.
    yield step_functions_models, "Execution", executions.announcing(router)
    # Tasks call AWS itself, with the caller's own credentials.
    client = TaskClients(endpoint_url).client
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith("moto.stepfunctions.parser") and hasattr(module, "boto_client_for"):
            yield module, "boto_client_for", client
