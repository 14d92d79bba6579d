"""Package the templates for taskcat, and let taskcat deploy it in AWS, a few tests at a time.

Usage: .venv/bin/python -m scripts.taskcat_tests package|test

Variables: S3_BUCKET, the bucket for the package, in the Region of the tests; AWS_REGION
(us-east-1); TESTS, names separated by commas (all); PARALLEL, the tests deployed at a time (4).
Exit codes: 0 all tests passed, 1 a test failed, 2 a prerequisite is missing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / ".taskcat.yml"
#: The root templates, and their environments in samconfig.toml.
TEMPLATES = {"template.yaml": "default", "existing-cluster.yaml": "existing-cluster"}
PACKAGES = ROOT / "build"
GENERATED = ROOT / "build" / "taskcat.yml"
TASKCAT = ROOT / ".venv-taskcat" / "bin" / "taskcat"

# By default an account may have five VPCs and five Elastic IPs in a Region.
DEFAULT_PARALLEL = 4
# On-Demand prices in us-east-1, US dollars per hour: a control plane 0.10, four c5.large 0.34, a
# NAT gateway 0.045, four c6gn.4xlarge 2.76. A test takes about 45 minutes.
DOLLARS_PER_TEST = 0.4
DOLLARS_MORE = {"ena-express": 1.9}

_IN_THE_ACCOUNT = re.compile(r"\$\[taskcat_ssm_(.+?)\]")
_PARAMETERS_PER_REQUEST = 10


class Refusal(Exception):
    """A missing prerequisite. The message says what is missing and how to get it."""


def main(arguments: Sequence[str]) -> int:
    if arguments not in (["package"], ["test"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        session = boto3.session.Session(region_name=os.environ.get("AWS_REGION") or "us-east-1")
        bucket = check_bucket(session)
        configured = yaml.safe_load(CONFIGURATION.read_text("utf-8"))
        if arguments == ["package"]:
            package(session.region_name, bucket)
            return 0
        requested = chosen(configured["tests"], os.environ.get("TESTS", ""))
        parallel = count(os.environ.get("PARALLEL", ""))
        tests = runnable(session, requested)
        package(session.region_name, bucket)
        return deploy(configured, tests, parallel, session.region_name, bucket)
    except subprocess.CalledProcessError as error:
        print(f"taskcat: `sam {error.cmd[3]}` failed, see above.", file=sys.stderr)
        return 2
    except Refusal as refusal:
        print(f"taskcat: {refusal}", file=sys.stderr)
        return 2


def check_bucket(session: boto3.session.Session) -> str:
    """The bucket for the package. Raises Refusal if it is missing or in another Region."""
    bucket = os.environ.get("S3_BUCKET", "")
    if not bucket:
        raise Refusal(
            "S3_BUCKET is not set. Name a bucket of yours in the Region of the tests, for example:"
            " make taskcat S3_BUCKET=my-artifacts"
        )
    try:
        session.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise Refusal(
            f"AWS accepts no credentials from here ({error}). Sign in, for example with: aws sso"
            " login; in CI, assume a role (docs/ci.md)."
        ) from error
    try:
        region = session.client("s3").get_bucket_location(Bucket=bucket)["LocationConstraint"]
    except ClientError as error:
        raise Refusal(f"The bucket {bucket} of S3_BUCKET cannot be used: {error}.") from error
    if (region or "us-east-1") != session.region_name:
        raise Refusal(
            f"The bucket {bucket} is in {region or 'us-east-1'}, the tests are in"
            f" {session.region_name}, and Lambda takes functions only from a bucket of its own"
            " Region. Name another S3_BUCKET or AWS_REGION."
        )
    return bucket


def chosen(tests: Mapping[str, Any], names: str) -> dict[str, Any]:
    """The tests with these names; all tests for an empty list. Raises Refusal for unknown names."""
    requested = [name.strip() for name in names.split(",") if name.strip()] or list(tests)
    unknown = [name for name in requested if name not in tests]
    if unknown:
        raise Refusal(
            f"TESTS names {', '.join(unknown)}, which {CONFIGURATION.name} has not. It has:"
            f" {', '.join(tests)}."
        )
    return {name: tests[name] for name in requested}


def count(text: str) -> int:
    """The number of tests to deploy at a time. Raises Refusal if the text is not one."""
    if not text:
        return DEFAULT_PARALLEL
    if not text.isdecimal() or int(text) == 0:
        raise Refusal(f"PARALLEL must be a number from 1, not {text!r}.")
    return int(text)


def needed(test: Mapping[str, Any]) -> set[str]:
    """The names in the account's Parameter Store that a test's parameters refer to."""
    return set(_IN_THE_ACCOUNT.findall(" ".join(test["parameters"].values())))


def runnable(session: boto3.session.Session, tests: Mapping[str, Any]) -> list[str]:
    """The names of the tests whose needs the account meets. Prints which tests are left out."""
    parameters = sorted(set().union(*map(needed, tests.values())))
    there: set[str] = set()
    store = session.client("ssm")
    for start in range(0, len(parameters), _PARAMETERS_PER_REQUEST):
        response = store.get_parameters(Names=parameters[start : start + _PARAMETERS_PER_REQUEST])
        there.update(parameter["Name"] for parameter in response["Parameters"])
    left_out = {name: sorted(needed(test) - there) for name, test in tests.items()}
    for name, missing in left_out.items():
        if missing:
            print(f"taskcat: {name} is left out: Parameter Store has no {', '.join(missing)}")
    possible = [name for name in tests if not left_out[name]]
    if not possible:
        raise Refusal("No test is left. docs/ci.md lists what the account has to hold for them.")
    return possible


def package(region: str, bucket: str) -> None:
    """Build the functions, upload them, and write the templates that refer to them."""
    PACKAGES.mkdir(exist_ok=True)
    to = ["--region", region, "--s3-bucket", bucket, "--s3-prefix", "rackrate"]
    for template, environment in TEMPLATES.items():
        into = ["--output-template-file", str(PACKAGES / template)]
        for command in (["build"], ["package", *to, *into]):
            subprocess.run(
                [sys.executable, "-m", "samcli", *command, "--config-env", environment],
                cwd=ROOT,
                check=True,
            )


def configuration(configured: Mapping[str, Any], tests: Iterable[str], region: str) -> Any:
    """The configuration with only these tests and this Region. taskcat has no options for that."""
    return {
        "project": configured["project"] | {"regions": [region]},
        "tests": {name: configured["tests"][name] for name in tests},
    }


def groups(tests: Sequence[str], size: int) -> list[Sequence[str]]:
    return [tests[start : start + size] for start in range(0, len(tests), size)]


def deploy(
    configured: Mapping[str, Any], tests: Sequence[str], parallel: int, region: str, bucket: str
) -> int:
    dollars = sum(DOLLARS_PER_TEST + DOLLARS_MORE.get(name, 0) for name in tests)
    print(
        f"taskcat: {len(tests)} stacks in {region}, {parallel} at a time: {', '.join(tests)}.\n"
        f"taskcat: about {dollars:.0f} US dollars and"
        f" {len(groups(tests, parallel)) * 0.75:.1f} hours. Each stack is deleted after its test,"
        " also when it fails.",
        flush=True,
    )
    variables = os.environ | {
        "TASKCAT_PROJECT_S3_BUCKET": bucket,
        # taskcat ignores this setting in its configuration. Buckets without ACLs need this value.
        "TASKCAT_PROJECT_S3_OBJECT_ACL": "bucket-owner-full-control",
    }
    failed = []
    for group in groups(tests, parallel):
        GENERATED.write_text(yaml.safe_dump(configuration(configured, group, region)))
        # `make taskcat-lint` lints once. Without the option, taskcat would lint for each group.
        command = ["test", "run", "--lint-disable", "--minimal-output", "-p", ".", "-i"]
        done = subprocess.run(
            [TASKCAT, *command, str(GENERATED.relative_to(ROOT))],
            cwd=ROOT,
            env=variables,
            check=False,
        )
        if done.returncode != 0:
            failed.append(", ".join(group))
    if failed:
        print(f"taskcat: failed among: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
