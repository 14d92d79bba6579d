"""`rackrate up` and `rackrate down`: what they deploy, refuse before anything is made, and ask."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.aws import account
from lab.stack import REPOSITORY
from lab.tests.aws.region import Lab
from tests.lab_aws.conftest import Rackrate, buckets_of
from tests.lab_aws.kubernetes_api import served
from tests.lab_aws.own_stack import IMAGE


def _stacks(lab: Lab) -> set[str]:
    pages = lab.client("cloudformation").get_paginator("describe_stacks").paginate()
    return {stack["StackName"] for page in pages for stack in page["Stacks"]}


def test_a_release_of_another_bucket_is_copied_and_names_its_new_one(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    buckets = buckets_of(lab)
    done = rackrate("up", "--stack", name, "--release", release, "--type", "m7i.4xlarge", "--json")
    assert done.exit_code == 0, done.output
    output = json.loads(done.stdout)
    assert (output["status"], output["outputs"]) == ("CREATE_COMPLETE", {"Type": "m7i.4xlarge"})
    (bucket,) = buckets_of(lab) - buckets
    inner = lab.client("s3").get_object(Bucket=bucket, Key="rackrate/1.2.3/inner.template")
    text = inner["Body"].read().decode()
    assert f"CodeUri: s3://{bucket}/rackrate/1.2.3/0123" in text
    assert f"        Bucket: {bucket}\n" in text
    assert "DisplayName: published" in text
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0
    assert buckets_of(lab) == buckets
    assert name not in _stacks(lab)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "add --release"),
        (["--release", "nowhere"], "nowhere has no release.json"),
        (["--set", "NodeCount"], "--set 'NodeCount' is not NAME=VALUE"),
        (["--set", "NodeCount=2", "--nodes", "3"], "NodeCount is given twice"),
        (["--set", "NodeCount=2", "--set", "NodeCount=3"], "NodeCount is given twice"),
        (["--treatment", "a=b"], "add --existing-cluster"),
        (["--release", "https://s3.us-east-1.amazonaws.com/b/r/1/x.template"], "add --sha256"),
        *(
            (["--release", url, "--sha256", "0" * 64], "correct --release")
            for url in (
                "https://example.com/b/r/1/x.template",
                "https://s3.us-east-1.amazonaws.com/b/r/1/x.yaml",
                "https://s3.us-east-1.amazonaws.com/x.template",
                "https://s3.us-east-1.amazonaws.com.example.com/b/r/1/x.template",
            )
        ),
        (["--nodes", "0"], "greater than or equal to 1"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_made(
    lab: Lab, name: str, rackrate: Rackrate, arguments: list[str], message: str
) -> None:
    before = _stacks(lab), buckets_of(lab)
    done = rackrate("up", "--stack", name, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", "").split())
    assert (_stacks(lab), buckets_of(lab)) == before


def test_a_parameter_that_the_stack_lacks_is_named_with_those_it_has(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    done = rackrate("up", "--stack", name, "--release", release, "--set", "NodeCuont=3")
    assert done.exit_code == 2
    assert (
        "no parameter NodeCuont (did you mean NodeCount?); its parameters are InstanceType, "
        in done.stderr
    )
    assert name not in _stacks(lab)
    # What was uploaded for it goes, too.
    assert rackrate("down", "--stack", name).exit_code == 0
    assert rackrate("down", "--stack", name).exit_code == 2


def test_a_cluster_that_exists_is_used_by_the_template_for_it(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    up = ("up", "--stack", name, "--release", release, "--yes", "--json")
    done = rackrate(*up, "--existing-cluster", "house", "--treatment", "a=c")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outputs"] == {"Type": "a=c"}
    # The stack that exists tells which template it has.
    done = rackrate(*up, "--treatment", "a=d")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outputs"] == {"Type": "a=d"}
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "0123").write_text("evil"), "is not what SHA256SUMS says"),
        (lambda path: (path / "0123").unlink(), "lacks '0123'"),
        (lambda path: (path / "SHA256SUMS").unlink(), "cannot be read"),
        (lambda path: (path / "release.json").write_text("{"), "cannot be read"),
        (
            lambda path: (path / "release.json").write_text(
                (path / "release.json").read_text().replace("release.v2", "release.v9")
            ),
            "'rackrate.release.v9' and not rackrate.release.v2",
        ),
    ],
)
def test_a_damaged_release_is_refused(
    lab: Lab, release: Path, name: str, rackrate: Rackrate, damage: object, message: str
) -> None:
    assert callable(damage)
    damage(release)
    before = buckets_of(lab)
    done = rackrate("up", "--stack", name, "--release", release)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
    assert buckets_of(lab) == before


def test_nothing_is_deleted_when_nobody_can_be_asked(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    assert rackrate("up", "--stack", name, "--release", release).exit_code == 0
    done = rackrate("down", "--stack", name)
    assert done.exit_code == 2
    assert "add --yes" in done.stderr
    assert name in _stacks(lab)
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0


def _publish(lab: Lab, release: Path) -> str:
    """Copy a release to a public bucket. Returns the URL of its template."""
    s3, bucket = lab.client("s3"), lab.bucket()
    for path in release.iterdir():
        s3.upload_file(str(path), bucket, f"rackrate/1.2.3/{path.name}")
    return f"https://{bucket}.s3.us-east-1.amazonaws.com/rackrate/1.2.3/rackrate.template"


def _hash(release: Path) -> str:
    return hashlib.sha256((release / "SHA256SUMS").read_bytes()).hexdigest()


@pytest.mark.parametrize("file", ["SHA256SUMS", "rackrate.template", "0123"])
def test_a_published_release_that_somebody_changed_is_refused_before_anything_is_made(
    lab: Lab, release: Path, name: str, rackrate: Rackrate, file: str
) -> None:
    digest = _hash(release)
    (release / file).write_text((release / file).read_text() + "\n")
    url = _publish(lab, release)
    before = buckets_of(lab)
    done = rackrate("up", "--stack", name, "--release", url, "--sha256", digest)
    assert (done.exit_code, "SHA256SUMS" in done.stderr) == (2, True), done.output
    assert (buckets_of(lab), name in _stacks(lab)) == (before, False)


def test_a_hash_that_is_given_is_asked_of_a_directory_too(
    lab: Lab, release: Path, name: str, rackrate: Rackrate
) -> None:
    before = buckets_of(lab)
    done = rackrate("up", "--stack", name, "--release", release, "--sha256", "0" * 64)
    assert (done.exit_code, "--sha256" in done.stderr) == (2, True), done.output
    assert buckets_of(lab) == before


def test_the_wheel_of_a_release_knows_its_hash(
    lab: Lab,
    release: Path,
    name: str,
    rackrate: Rackrate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = tmp_path / "release.sha256"
    monkeypatch.setattr("rackrate_cli.deploying.release.OWN_HASH", own)
    url = _publish(lab, release)
    own.write_text("0" * 64)
    assert rackrate("up", "--stack", name, "--release", url).exit_code == 2
    own.write_text(_hash(release))
    assert rackrate("up", "--stack", name, "--release", url).exit_code == 0
    assert rackrate("down", "--stack", name, "--yes").exit_code == 0


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of this repository, for the bucket `published`."""
    out = tmp_path_factory.mktemp("release")
    # A process of its own, because moto has one S3 for all servers of a process.
    command = [sys.executable, "-m", "scripts.release", "published", "us-east-1", str(out)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (directory,) = (out / "rackrate").iterdir()
    assert (directory / "sbom.cdx.json").stat().st_size > 0
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("rackrate_cli/release.sha256").decode() == _hash(directory)
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in (directory / "launch.md").read_text()
    return directory


@pytest.fixture
def served_clusters(lab: Lab) -> Iterator[None]:
    """Clusters that are created have a Kubernetes API."""
    with served() as api:
        before, lab.backend.endpoint = lab.backend.endpoint, api.url
        yield
        lab.backend.endpoint = before


def test_a_directory_is_deployed_changed_and_removed_with_its_bucket(
    lab: Lab, served_clusters: None, published: Path, rackrate: Rackrate
) -> None:
    stacks, buckets = _stacks(lab), buckets_of(lab)
    stack = ("--stack", "released")
    done = rackrate(
        *("up", *stack, "--release", published, "--type", "c5n.9xlarge"),
        *("--set", f"ToolImage={IMAGE}", "--set", "RetainResults=false"),
    )
    assert done.exit_code == 0, done.stderr
    assert 'The stack "released" is CREATE_COMPLETE in us-east-1.' in done.stdout
    artifacts, results = sorted(buckets_of(lab) - buckets, key=lambda name: "result" in name)
    tags = lab.client("s3").get_bucket_tagging(Bucket=artifacts)["TagSet"]
    assert tags == [{"Key": "rackrate:stack", "Value": "released"}]
    assert f"{artifacts}\n" in done.stderr and results not in done.stderr

    more = rackrate("up", *stack, "--release", published, "--nodes", "3", "--yes")
    assert more.stderr.count("perhaps replaced in TreatmentNodes: ") == 1
    assert more.exit_code == 0, more.stderr
    (deployed,) = lab.client("cloudformation").describe_stacks(StackName="released")["Stacks"]
    parameters = {each["ParameterKey"]: each["ParameterValue"] for each in deployed["Parameters"]}
    assert (parameters["NodeCount"], parameters["InstanceType"]) == ("3", "c5n.9xlarge")
    assert "uploading" not in more.stderr

    same = rackrate("up", *stack, "--release", published, "--nodes", "3")
    assert (same.exit_code, "Nothing changes." in same.stderr) == (0, True), same.stderr

    # What GuardDuty and the VPC CNI leave in the VPC of the nested stack holds it.
    ec2 = lab.client("ec2")
    (subnet,) = [
        each
        for each in ec2.describe_subnets()["Subnets"]
        if _name_of(each).startswith("released-")
        and _name_of(each).endswith("private")
        and each["AvailabilityZone"] == "us-east-1a"
    ]
    group = ec2.create_security_group(VpcId=subnet["VpcId"], GroupName="guest", Description="x")
    ec2.create_tags(
        Resources=[group["GroupId"]], Tags=[{"Key": "GuardDutyManaged", "Value": "true"}]
    )
    outputs = {each["OutputKey"]: each["OutputValue"] for each in deployed["Outputs"]}
    tags = {
        "cluster.k8s.amazonaws.com/name": outputs["ClusterName"],
        "node.k8s.amazonaws.com/instance_id": "i-1",
    }
    interface = ec2.create_network_interface(
        SubnetId=subnet["SubnetId"], Description="aws-K8S-i-1"
    )["NetworkInterface"]["NetworkInterfaceId"]
    ec2.create_tags(Resources=[interface], Tags=[{"Key": key, "Value": tags[key]} for key in tags])
    held = rackrate("down", *stack, "--yes", "--json")
    assert held.exit_code == 1
    left = {each["id"]: each["is_removable"] for each in json.loads(held.stdout)["leftovers"]}
    assert left == {group["GroupId"]: True, interface: True}

    removed = rackrate("down", *stack, "--yes", "--remove-leftovers")
    assert removed.exit_code == 0, removed.stderr
    assert (_stacks(lab), buckets_of(lab)) == (stacks, buckets)


def _name_of(resource: dict[str, Any]) -> str:
    return next((tag["Value"] for tag in resource.get("Tags", []) if tag["Key"] == "Name"), "")


def test_a_refused_deployment_says_why_and_down_removes_it(
    lab: Lab,
    served_clusters: None,
    published: Path,
    rackrate: Rackrate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account, "PLAN", "FREE")
    stacks, buckets = _stacks(lab), buckets_of(lab)
    s3 = lab.client("s3")
    s3.create_bucket(Bucket="published")
    for path in published.iterdir():
        s3.upload_file(str(path), "published", f"rackrate/{published.name}/{path.name}")
    url = (
        f"https://s3.us-east-1.amazonaws.com/published/rackrate/{published.name}/rackrate.template"
    )
    try:
        stack = ("--stack", "refused")
        options = ("--release", url, "--sha256", _hash(published))
        done = rackrate("up", *stack, *options, "--type", "t3.large")
        assert done.exit_code == 1, done.stderr
        assert "ROLLBACK_COMPLETE" in done.stderr
        refused = "InstanceType t3.large: the account has AWS's Free plan"
        assert f"(Preflight: PreflightFailed: (1) {refused}" in done.stderr
        assert "(2) InstanceType t3.large: it cannot be in" in done.stderr
        assert "RequestId" not in done.stderr
        again = rackrate("up", *stack, "--release", url)
        assert (again.exit_code, "rackrate down --stack refused" in again.stderr) == (1, True)
        removed = rackrate("down", *stack, "--yes")
        assert removed.exit_code == 0, removed.stderr
    finally:
        for path in published.iterdir():
            s3.delete_object(Bucket="published", Key=f"rackrate/{published.name}/{path.name}")
        s3.delete_bucket(Bucket="published")
    assert (_stacks(lab), buckets_of(lab)) == (stacks, buckets)
