"""The session whose clients call AWS: no call outlasts its function."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

#: A function runs for a minute at least. A call that gets no answer fails after three quarters of
#: it, so that the function can say so, and the state machine calls it again.
_OF_ALL = Config(
    connect_timeout=5,
    read_timeout=12,
    retries={"mode": "standard", "total_max_attempts": 3},
    # CloudTrail records it with each call. botocore composes a long one for each request, and that
    # takes a quarter of the processor time of storing a log.
    user_agent="rackrate",
)


@functools.cache
def session() -> boto3.Session:
    """The process's session."""
    botocore_session = botocore.session.get_session()
    botocore_session.set_default_client_config(_OF_ALL)
    botocore_session.register("before-sign.s3.PutObject", _send_at_once)
    return boto3.Session(botocore_session=botocore_session)


def _send_at_once(**event: Any) -> None:
    """Send an object's content with its request.

    botocore would first ask S3 whether it may, which takes a round trip for each of a run's logs.
    """
    del event["request"].headers["Expect"]


def is_ipv6(description: Mapping[str, Any]) -> bool:
    """Whether pods and Services of a cluster, as DescribeCluster returns it, have IPv6 only.

    EKS has no cluster with both (EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and
    services").
    """
    return bool(description.get("kubernetesNetworkConfig", {}).get("ipFamily") == "ipv6")
