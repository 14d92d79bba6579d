"""The stack's settings, store and cluster, and the AWS clients that a function uses."""

from __future__ import annotations

import functools
import os
from typing import Any

from rackrate import aws
from rackrate.executions.store import Store
from rackrate.measure.cluster import Cluster
from rackrate.plan import prices
from rackrate.settings import Settings


class Resources:
    """The stack's resources. A function's process makes each one once, on first use."""

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings that the template puts into the environment."""
        return Settings.from_environment()

    @functools.cached_property
    def store(self) -> Store:
        """The table and the bucket."""
        return Store(self.settings.table_name, self.settings.bucket_name)

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The Kubernetes API; connecting may raise `ClusterUnreachable`."""
        return Cluster(self.settings.cluster_name)

    @functools.cached_property
    def eks(self) -> Any:
        """A client of EKS."""
        return aws.session().client("eks")

    @functools.cached_property
    def ec2(self) -> Any:
        """A client of EC2."""
        return aws.session().client("ec2")

    @functools.cached_property
    def quotas(self) -> Any:
        """A client of Service Quotas with short timeouts, because there may be no way to it."""
        return aws.session().client("service-quotas", config=prices.CLIENT_CONFIG)

    @functools.cached_property
    def autoscaling(self) -> Any:
        """A client of Auto Scaling with short timeouts, because there may be no way to it."""
        return aws.session().client("autoscaling", config=prices.CLIENT_CONFIG)

    @functools.cached_property
    def step_functions(self) -> Any:
        """A client of Step Functions."""
        return aws.session().client("stepfunctions")

    @functools.cached_property
    def region(self) -> str:
        """The stack's Region."""
        return os.environ["AWS_REGION"]

    @functools.cached_property
    def pricing(self) -> Any:
        """A client of the Price List API."""
        return prices.client(aws.session(), self.region)
