"""Bootstrap: the custom resource that prepares the cluster."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate import aws
from rackrate.errors import AccessLost, ClusterUnreachable
from rackrate.measure.cluster import Cluster
from rackrate.stack.administration import AccessPolicy
from rackrate.stack.custom_resource import serve
from rackrate.stages.bootstrap import Tenant, heal, serve_request

#: The part of the function's time that is reserved for the answer.
_RESERVE_SECONDS = 30
#: How long a run waits for its namespace. A stack's deletion first deletes what can ask for this,
#: and takes longer until it deletes the namespace.
_HEAL_SECONDS = 60.0


def _connect() -> Cluster | None:
    name = os.environ["CLUSTER_NAME"]
    try:
        aws.session().client("eks").describe_cluster(name=name)
    except aws.session().client("eks").exceptions.ResourceNotFoundException:
        return None
    return Cluster(name)


@logger.inject_lambda_context(correlation_id_path="RequestId")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """The Lambda entry point: CloudFormation's requests, and `Heal` of a run without its namespace.

    Whoever asks cannot say what is made: that is in the environment.
    """
    tenant = Tenant.from_environment(os.environ)
    administration = AccessPolicy(aws.session().client("eks"), os.environ)
    if event["RequestType"] == "Heal":
        try:
            return dict(heal(tenant, _connect, administration, _HEAL_SECONDS).data)
        except ClusterUnreachable as error:
            # Under a name that no state retries: the run counts how often it asks.
            raise AccessLost(str(error)) from error
    seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    serve(
        event,
        context,
        lambda request: serve_request(request, tenant, _connect, administration, seconds),
    )
    return None
