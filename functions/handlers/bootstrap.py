"""Bootstrap: the custom resource that prepares the cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate import aws
from rackrate.errors import AccessLost, ClusterUnreachable, suppress_codes
from rackrate.measure.cluster import Cluster
from rackrate.stack.administration import AccessPolicy
from rackrate.stack.custom_resource import Answer, serve
from rackrate.stages.stack import bootstrap


def _connect() -> Cluster | None:
    eks, name = aws.session().client("eks"), os.environ["CLUSTER_NAME"]
    with suppress_codes("ResourceNotFoundException"):
        eks.describe_cluster(name=name)
        return Cluster(name)
    return None


@logger.inject_lambda_context(correlation_id_path="RequestId")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """The Lambda entry point: CloudFormation's requests, `Heal` of a run, the events of a schedule.

    Whoever asks cannot say what is made: that is in the environment.
    """
    tenant = bootstrap.Tenant.from_environment(os.environ)
    administration = AccessPolicy(aws.session().client("eks"), os.environ)
    if event.get("detail-type") == "Scheduled Event":
        administration.give_back_forgotten()
        return None
    if event["RequestType"] == "Heal":
        try:
            seconds = bootstrap.HEAL_SECONDS
            return dict(bootstrap.heal(tenant, _connect, administration, seconds).data)
        except ClusterUnreachable as error:
            # Under a name that no state retries: the run counts how often it asks.
            raise AccessLost(str(error)) from error

    def meet(request: Mapping[str, Any]) -> Answer:
        seconds = context.get_remaining_time_in_millis() / 1000 - bootstrap.RESERVE_SECONDS
        return bootstrap.serve_request(request, tenant, _connect, administration, seconds)

    serve(event, context, meet, last_seconds=bootstrap.RESERVE_SECONDS)
    return None
