"""An emulated table and bucket, and a fake cluster whose pods do what the tests script."""

from __future__ import annotations

import datetime
import functools

import boto3
import pytest
from moto import mock_aws
from moto.core.base_backend import BaseBackend
from moto.s3 import urls as s3_urls
from moto.s3.models import S3Backend

from rackrate.executions.store import Store
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.given import Given
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.samples import SETTINGS
from tests.unit.stages.runs import States


@pytest.fixture(scope="session")
def aws():
    """One emulated Region for all tests, because making its clients is slow."""
    # Imported here, because it takes a second, and most tests need no AWS.
    from lab.aws import moto_patches

    moto_patches.apply(moto_patches.DYNAMODB)
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        # moto makes a service's addresses anew for each call, and S3's by loading their module
        # again, twice. They depend on environment variables that no test sets.
        patch.setattr(S3Backend, "_url_module", s3_urls)
        patch.setattr(BaseBackend, "urls", property(functools.cache(BaseBackend.urls.fget)))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        yield boto3.Session()


class Ec2:
    """EC2 with the instances that a test puts there."""

    def __init__(self, types):
        self.instances = {}
        self.strategies = {}
        self._types = types

    def describe_instance_types(self, *, InstanceTypes=(), Filters=()):
        filters = tuple((each["Name"], tuple(each["Values"])) for each in Filters)
        return self._types(tuple(InstanceTypes), filters)

    def place(self, node, group=None, strategy=None, **more):
        """Launch the instance of a node in a placement group, or in none."""
        if group is not None:
            self.strategies[group] = strategy
        where = {"GroupName": group or "", "Tenancy": "default", **more}
        self.instances[f"i-{node}"] = {
            "InstanceId": f"i-{node}",
            "Placement": where,
            "State": {"Name": "running"},
        }

    def terminate(self, node):
        """Terminate the instance of a node."""
        self.instances[f"i-{node}"]["State"] = {"Name": "terminated"}

    def describe_instances(self, *, Filters):
        (only,) = Filters
        instances = [self.instances[one] for one in only["Values"] if one in self.instances]
        return {"Reservations": [{"Instances": instances}]}

    def describe_placement_groups(self, *, GroupNames):
        groups = [{"GroupName": one, "Strategy": self.strategies[one]} for one in GroupNames]
        return {"PlacementGroups": groups}

    def describe_instance_topology(self, *, InstanceIds):
        return {"Instances": []}


class AutoScaling:
    """Auto Scaling with the activities that a test notes, and no way to it if a test says so."""

    def __init__(self):
        self.activities = []
        self.fails = None

    def note(self, group, status, message, *, minutes_ago=0):
        """Note the end of a launch of an Auto Scaling group."""
        began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes_ago)
        activity = {"StatusCode": status, "StatusMessage": message, "StartTime": began}
        self.activities.insert(0, {"AutoScalingGroupName": group, "Cause": "growth", **activity})

    def describe_scaling_activities(self, *, AutoScalingGroupName):
        if self.fails is not None:
            raise self.fails
        group = AutoScalingGroupName
        return {"Activities": [a for a in self.activities if a["AutoScalingGroupName"] == group]}


@pytest.fixture
def autoscaling():
    return AutoScaling()


@pytest.fixture(scope="session")
def instance_types(aws):
    """A cache of instance types, because moto reads them slowly."""
    client = aws.client("ec2")

    def describe(types, filters):
        named = [{"Name": name, "Values": list(values)} for name, values in filters]
        return client.describe_instance_types(InstanceTypes=list(types), Filters=named)

    return functools.cache(describe)


@pytest.fixture
def ec2(instance_types):
    return Ec2(instance_types)


@pytest.fixture(scope="session")
def s3(aws):
    return aws.client("s3")


@pytest.fixture(scope="session")
def dynamodb(aws):
    return aws.client("dynamodb")


@pytest.fixture(scope="session")
def shared_store(aws, s3):
    s3.create_bucket(Bucket=SETTINGS.bucket_name)
    return Store(SETTINGS.table_name, SETTINGS.bucket_name, aws)


@pytest.fixture(scope="session")
def table():
    """The table that the template describes, as DynamoDB wants it."""
    template = load(ROOT / "templates" / "results.yaml")["Resources"]["KeptTable"]["Properties"]
    fields = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
    return {key: template[key] for key in fields}


@pytest.fixture
def store(shared_store, table, dynamodb, s3):
    """An empty store on the table that the template describes."""
    dynamodb.create_table(TableName=SETTINGS.table_name, **table)
    yield shared_store
    dynamodb.delete_table(TableName=SETTINGS.table_name)
    contents = s3.list_objects_v2(Bucket=SETTINGS.bucket_name).get("Contents", [])
    if contents:
        keys = {"Objects": [{"Key": entry["Key"]} for entry in contents]}
        s3.delete_objects(Bucket=SETTINGS.bucket_name, Delete=keys)


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def settings():
    """The stack's settings. Modules and classes of tests may override them."""
    return SETTINGS


@pytest.fixture
def resources(settings, store, cluster, ec2, autoscaling):
    """The resources of all functions. Prices come from the dated table."""
    return Given(
        settings=settings,
        store=store,
        cluster=cluster,
        ec2=ec2,
        autoscaling=autoscaling,
        pricing=None,
        region="us-east-1",
        step_functions=States("RUNNING"),
    )
