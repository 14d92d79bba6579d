"""What the handlers share: made once in each function's process, and only when it is used."""

from __future__ import annotations

import functools

from aws_lambda_powertools import Logger

from rackrate.cluster import Cluster
from rackrate.settings import Settings
from rackrate.store import Store

logger = Logger()


@functools.cache
def settings() -> Settings:
    """The stack's settings."""
    return Settings.from_environment()


@functools.cache
def store() -> Store:
    """The stack's table and bucket."""
    return Store(settings().table_name, settings().bucket_name)


@functools.cache
def cluster() -> Cluster:
    """The stack's cluster."""
    return Cluster(settings().cluster_name)
