"""Notify: send the sentence of a run or a campaign that ended badly to the alarms' topic."""

from __future__ import annotations

import os

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate import aws
from rackrate.errors import translated
from rackrate.executions.store import Store
from rackrate.stages.execution.notify import Post, notify
from rackrate_contract.document import Json


def _post() -> Post:
    return Post(
        stack=os.environ["POWERTOOLS_SERVICE_NAME"],
        campaigns_arn=os.environ["CAMPAIGN_STATE_MACHINE_ARN"],
        topic_arn=os.environ["TOPIC_ARN"],
        store=Store(os.environ["TABLE_NAME"], bucket_name=""),  # it reads no object
        sns=aws.session().client("sns"),
    )


@logger.inject_lambda_context(correlation_id_path="detail.name")
@translated()
def handler(event: Json, context: LambdaContext) -> Json | None:
    """The Lambda entry point: EventBridge's event of an execution's end."""
    message = notify(event["detail"], _post())
    if message is None:
        return None
    # Without the text, which has a link that opens the page.
    logger.info("sent a message", extra={"subject": message.subject})
    return {"subject": message.subject}
