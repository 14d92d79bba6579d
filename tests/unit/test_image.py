"""The tool image: one build for each content, and a failed build names its log."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import zipfile

import pytest
import yaml
from botocore.exceptions import ClientError

from rackrate_text.quotas import IMAGE_BUILDS
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.stack.custom_resources import Context, listener, only, request

DIRECTORY = ROOT / "image"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"


def _load():
    spec = importlib.util.spec_from_file_location("image_handler", DIRECTORY / "handler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


image = _load()


class CodeBuild:
    """Scripted builds. A successful build pushes an image, as the buildspec does."""

    def __init__(self, ecr, name):
        self._ecr, self._name = ecr, name
        self.builds, self.stopped = {}, []
        self.fails, self.pushes, self.never_ends = set(), True, False
        self.queued = set()

    def start_build(self, **build):
        id_ = f"project:{len(self.builds)}"
        given = {v["name"]: v["value"] for v in build["environmentVariablesOverride"]}
        self.builds[id_] = {**build, "tag": given["IMAGE_TAG"], "uri": given["REPOSITORY_URI"]}
        return {"build": {"id": id_}}

    def batch_get_builds(self, *, ids):
        return {"builds": [self._described(id_) for id_ in ids]}

    def _described(self, id_):
        build = self.builds[id_]
        logs = {"deepLink": f"https://console.test/{id_}"}
        if self.never_ends:
            phases = [
                {"phaseType": "QUEUED", "phaseStatus": "SUCCEEDED", "durationInSeconds": 280},
                {"phaseType": "BUILD"},
            ]
            return {"id": id_, "buildStatus": "IN_PROGRESS", "logs": logs, "phases": phases}
        if build["tag"].rpartition("-")[2] in self.queued:
            phases = [
                {"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"},
                {"phaseType": "QUEUED", "phaseStatus": "TIMED_OUT", "durationInSeconds": 300},
                {"phaseType": "COMPLETED"},
            ]
            return {"id": id_, "buildStatus": "TIMED_OUT", "logs": logs, "phases": phases}
        if build["tag"].rpartition("-")[2] in self.fails:
            contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": "exit status 1"}]
            phases = [
                {"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"},
                {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts},
                {"phaseType": "COMPLETED"},
            ]
            return {"id": id_, "buildStatus": "FAILED", "logs": logs, "phases": phases}
        if self.pushes:
            push(self._ecr, self._name, build["tag"])
        return {"id": id_, "buildStatus": "SUCCEEDED", "logs": logs, "phases": []}

    def stop_build(self, *, id):
        self.stopped.append(id)


def push(ecr, name, tag):
    config = {"digest": f"sha256:{tag}", "size": 1}
    manifest = {"schemaVersion": 2, "mediaType": DOCKER, "config": config, "layers": []}
    try:
        ecr.put_image(repositoryName=name, imageManifest=json.dumps(manifest), imageTag=tag)
    except ClientError as error:
        assert error.response["Error"]["Code"].startswith("Image")


@pytest.fixture
def ecr(aws):
    client = aws.client("ecr")
    client.create_repository(repositoryName="tools", imageTagMutability="IMMUTABLE")
    yield client
    client.delete_repository(repositoryName="tools", force=True)


@pytest.fixture
def source(s3):
    s3.create_bucket(Bucket="sources-of-image")
    yield s3
    for entry in s3.list_objects_v2(Bucket="sources-of-image").get("Contents", []):
        s3.delete_object(Bucket="sources-of-image", Key=entry["Key"])
    s3.delete_bucket(Bucket="sources-of-image")


@pytest.fixture
def codebuild(ecr, monkeypatch):
    monkeypatch.setattr(image, "_PAUSE_SECONDS", 0.01)
    return CodeBuild(ecr, "tools")


@pytest.fixture
def uri(ecr):
    return ecr.describe_repositories(repositoryNames=["tools"])["repositories"][0]["repositoryUri"]


@pytest.fixture
def builder(ecr, source, codebuild, uri):
    return image.Builder(
        repository_uri=uri,
        project="project",
        bucket="sources-of-image",
        ecr=ecr,
        codebuild=codebuild,
        s3=source,
    )


def test_both_architectures_are_built_natively_and_joined_under_one_tag(
    builder, codebuild, ecr, uri
):
    name = builder.image_uri(60)
    tag = image.source_tag()
    assert re.fullmatch(re.escape(f"{uri}:{tag}@sha256:") + "[0-9a-f]{64}", name)
    kinds = {b["tag"]: b["environmentTypeOverride"] for b in codebuild.builds.values()}
    assert kinds == {f"{tag}-amd64": "LINUX_CONTAINER", f"{tag}-arm64": "ARM_CONTAINER"}
    for build in codebuild.builds.values():
        assert ("aarch64" in build["imageOverride"]) == ("arm64" in build["tag"])
    (joined,) = ecr.batch_get_image(repositoryName="tools", imageIds=[{"imageTag": tag}])["images"]
    parts = json.loads(joined["imageManifest"])["manifests"]
    assert [p["platform"]["architecture"] for p in parts] == ["amd64", "arm64"]
    for part in parts:
        where = {"imageTag": f"{tag}-{part['platform']['architecture']}"}
        (one,) = ecr.batch_get_image(repositoryName="tools", imageIds=[where])["images"]
        assert part["digest"] == one["imageId"]["imageDigest"]
        assert part["size"] == len(one["imageManifest"].encode())


def test_codebuild_is_given_the_files_of_the_directory(builder, codebuild, source):
    builder.image_uri(60)
    (where,) = {build["sourceLocationOverride"] for build in codebuild.builds.values()}
    bucket, _, key = where.partition("/")
    content = source.get_object(Bucket=bucket, Key=key)["Body"].read()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in image.SOURCE:
            assert archive.read(name) == (DIRECTORY / name).read_bytes()
    builder.remove_source()
    assert source.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_what_is_built_already_is_not_built_again(builder, codebuild):
    first = builder.image_uri(60)
    assert builder.image_uri(60) == first
    assert len(codebuild.builds) == 2


def test_only_the_architecture_that_is_missing_is_built(builder, codebuild, ecr):
    push(ecr, "tools", f"{image.source_tag()}-amd64")
    builder.image_uri(60)
    (build,) = codebuild.builds.values()
    assert build["tag"].endswith("-arm64")


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("fails", "phase BUILD: exit status 1"),
        ("queued", r"never started: .* quota L-596BEAB4 \(ARM/Large\); .* Service Quotas for more"),
    ],
)
def test_a_failed_build_is_quoted_with_its_log_or_its_quota(builder, codebuild, fate, reason):
    setattr(codebuild, fate, {"arm64"})
    log = r"\. Log: https://console\.test/project:1\."
    with pytest.raises(image.BuildFailed, match=f"^the build for arm64 failed, .*{reason}{log}$"):
        builder.image_uri(60)


def test_a_build_that_succeeded_without_an_image_is_no_success(builder, codebuild):
    codebuild.pushes = False
    with pytest.raises(image.BuildFailed, match="for amd64 succeeded, and yet its image is not"):
        builder.image_uri(60)


def test_builds_that_take_too_long_are_stopped(builder, codebuild):
    codebuild.never_ends = True
    with pytest.raises(
        image.BuildFailed,
        match=r"took longer than 0 s and were stopped.*which was queued for 280 s",
    ):
        builder.image_uri(0.05)
    assert codebuild.stopped == list(codebuild.builds)


def test_the_tag_changes_with_what_is_built_and_with_nothing_else(tmp_path):
    for name in (*image.SOURCE, "handler.py"):
        (tmp_path / name).write_bytes((DIRECTORY / name).read_bytes())
    before = image.source_tag(tmp_path)
    assert before == image.source_tag()
    (tmp_path / "handler.py").write_text("another")
    assert image.source_tag(tmp_path) == before
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    assert image.source_tag(tmp_path) != before


@pytest.fixture
def handler(monkeypatch, ecr, source, codebuild, uri):
    clients = {"ecr": ecr, "codebuild": codebuild, "s3": source}
    monkeypatch.setattr(image.boto3, "client", clients.__getitem__)
    monkeypatch.setenv("REPOSITORY_URI", uri)
    monkeypatch.setenv("PROJECT_NAME", "project")
    monkeypatch.setenv("BUCKET_NAME", "sources-of-image")

    def call(kind, seconds=900):
        with listener() as (url, responses):
            image.handler(request(kind, {}, ResponseURL=url), Context(seconds))
        return only(responses)

    return call


def test_the_handler_answers_with_the_image(handler, uri):
    answer = handler("Create")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", uri)
    assert answer["Data"]["ImageUri"].startswith(f"{uri}:{image.source_tag()}@sha256:")
    assert handler("Update")["Data"] == answer["Data"]
    assert handler("Delete")["Status"] == "SUCCESS"


def test_the_handler_answers_when_a_build_failed(handler, codebuild, uri):
    codebuild.fails = {"amd64", "arm64"}
    answer = handler("Create")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", uri)
    assert answer["Reason"].startswith("BuildFailed: the build for amd64 failed, phase BUILD:")
    assert "project:0" in answer["Reason"] and "project:1" in answer["Reason"]


def test_the_function_is_given_what_it_reads_and_the_build_what_it_uses():
    resources = load(ROOT / "templates" / "image.yaml")["Resources"]
    given = set(resources["ImageFunction"]["Properties"]["Environment"]["Variables"])
    read = set(re.findall(r'os\.environ\["(\w+)"\]', (DIRECTORY / "handler.py").read_text()))
    assert given == read
    project = resources["Project"]["Properties"]
    assert project["Source"]["BuildSpec"] in image.SOURCE
    waits = resources["ImageFunction"]["Properties"]["Timeout"] - image._RESERVE_SECONDS
    assert project["TimeoutInMinutes"] * 60 <= waits
    assert project["QueuedTimeoutInMinutes"] * 60 < waits, "CodeBuild says that it was queued"
    commands = (DIRECTORY / "buildspec.yaml").read_text()
    yaml.safe_load(commands)
    used = set(re.findall(r"\$\{?([A-Z_]+)", commands)) - {"CODEBUILD_BUILD_SUCCEEDING"}
    assert used == {"REPOSITORY_URI", "IMAGE_TAG"}


def test_each_build_names_the_quota_that_preflight_compares():
    assert {name.split()[0] for name in image.QUOTAS.values()} == set(IMAGE_BUILDS.values())
    assert set(image.QUOTAS) == set(image.ARCHITECTURES)
    project = load(ROOT / "templates" / "image.yaml")["Resources"]["Project"]["Properties"]
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_LARGE"


def test_pods_can_run_the_image_as_a_user_of_no_name():
    from rackrate.measure import manifests

    lines = (DIRECTORY / "Dockerfile").read_text().splitlines()
    assert f"USER {manifests.USER}:{manifests.USER}" in lines, "Kubernetes checks only numbers"
    assert f"--reuid={manifests.USER}" in "\n".join(lines), "the build tries the tools as that user"


def test_what_no_package_has_is_built_from_the_modules_that_are_locked():
    programs = dict(line.split() for line in (DIRECTORY / "programs.txt").read_text().splitlines())
    packages = {source for source in programs.values() if "/" in source}
    text = (DIRECTORY / "go.mod").read_text()
    lists = re.findall(r"(?ms)^tool (?:\((.*?)^\)|(\S+)$)", text)
    assert packages and packages == {name for each in lists for name in " ".join(each).split()}
    modules = re.findall(r"(?m)^(\S+) v\S+ h1:", (DIRECTORY / "go.sum").read_text())
    for package in packages:
        assert any(f"{package}/".startswith(f"{module}/") for module in modules)


def test_the_list_of_programs_is_in_what_is_built():
    """The Dockerfile copies only these files from its directory."""
    copies = re.findall(r"(?m)^COPY ([^-].*) \S+$", (DIRECTORY / "Dockerfile").read_text())
    copied = {name for names in copies for name in names.split()}
    assert "programs.txt" in copied and copied <= set(image.SOURCE)
