"""Write a release: all that a public bucket needs, in build/release below the bucket's keys.

Usage: python -m scripts.release BUCKET REGION [DIRECTORY]

The SAM CLI packages what `sam build` made into an S3 of this process, from which the files are
written. So nothing needs an AWS account.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import quote

import boto3
from moto.server import ThreadedMotoServer

from lab import stack

RELEASE = stack.REPOSITORY / "build" / "release"
#: The root templates by their names in a release.
TEMPLATES = {
    "rackrate.template": stack.OWN_CLUSTER,
    "existing-cluster.template": stack.EXISTING_CLUSTER,
}
HASHES = "SHA256SUMS"
#: The Python packages of the functions.
_LOCKS = stack.REPOSITORY / "packages"


def write(bucket: str, region: str, out: Path) -> Path:
    """Write the release of what is built into `out`. Returns the directory of the version."""
    for root in TEMPLATES.values():
        stack.build(root)
    version = str(
        tomllib.loads((stack.REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"][
            "version"
        ]
    )
    prefix = f"rackrate/{version}"
    directory = out / prefix
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    address = f"https://s3.{region}.{suffix}/{bucket}"
    _package(bucket, prefix, directory, address)
    description = {
        "schema": "rackrate.release.v2",
        "version": version,
        "bucket": bucket,
        "address": address,
        "prefix": prefix,
        **dict(zip(("template", "existing_cluster_template"), TEMPLATES, strict=True)),
    }
    (directory / "release.json").write_text(json.dumps(description, indent=2) + "\n", "utf-8")
    _bill_of_materials(directory / "sbom.cdx.json")
    files = sorted(path for path in directory.iterdir() if path.is_file())
    sums = directory / HASHES
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files), "utf-8")
    wheel = _wheel(directory, _sha256(sums))
    (directory / "launch.md").write_text(
        _launch(version, region, f"{address}/{prefix}", _sha256(sums), wheel), "utf-8"
    )
    return directory


def _package(bucket: str, prefix: str, directory: Path, address: str) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )
        s3.create_bucket(Bucket=bucket)
        variables = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }
        variables = stack.child_environment() | variables
        for name, root in TEMPLATES.items():
            stack.package_into(bucket, directory / name, variables, root=root, prefix=prefix)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        for key in [each["Key"] for page in pages for each in page.get("Contents", [])]:
            s3.download_file(bucket, key, str(directory / Path(key).name))
    finally:
        server.stop()
    for template in directory.glob("*.template"):
        text = template.read_text("utf-8").replace(f"{endpoint}/{bucket}", address)
        if endpoint in text:
            raise SystemExit(f"release: {template} names {endpoint}")
        template.write_text(text, "utf-8")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _wheel(directory: Path, sha256: str) -> Path:
    """Build the command's wheel, which knows the hash of the list of the release's hashes."""
    with tempfile.TemporaryDirectory() as source:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(stack.REPOSITORY / name, source)
        for name in ("cli", "functions/rackrate_contract", "functions/rackrate_text"):
            shutil.copytree(stack.REPOSITORY / name, Path(source) / name)
        (Path(source) / "cli" / "release.sha256").write_text(sha256, "ascii")
        # With the setuptools of this environment, so that no package index is asked.
        own = ["--no-build-isolation", "--python", sys.executable]
        _run(["scripts/uv", "build", "--quiet", "--wheel", *own, "-o", str(directory), source])
    # uv writes one for a directory that it takes for its own.
    (directory / ".gitignore").unlink(missing_ok=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def _bill_of_materials(path: Path) -> None:
    """Write the Python packages of the functions as CycloneDX JSON."""
    locks = "".join(lock.read_text("utf-8") for lock in sorted(_LOCKS.glob("*.txt")))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as all_of_them:
        all_of_them.write(locks)
        all_of_them.flush()
        _run(
            [
                *(str(Path(sys.executable).parent / "cyclonedx-py"), "requirements"),
                *("--output-reproducible", "--of", "JSON", "--output-file", str(path)),
                all_of_them.name,
            ]
        )


def _launch(version: str, region: str, place: str, sha256: str, wheel: Path) -> str:
    url = f"{place}/rackrate.template"
    link = (
        f"https://console.aws.amazon.com/cloudformation/home?region={region}#/stacks/quickcreate"
        f"?templateURL={quote(url, safe='')}&stackName=rackrate"
    )
    return (
        f"# rackrate {version}\n\n"
        f"[Launch Stack]({link}) in {region}, or with the command of this release:\n\n"
        f"```sh\nuv tool install 'rackrate @ {place}/{wheel.name}#sha256={_sha256(wheel)}'\n"
        f"rackrate up --release {url}\n```\n\n"
        f"Other copies of the command need `--sha256 {sha256}`.\n"
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, cwd=stack.REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"release: {' '.join(command[:2])} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Write the release and say what it has, and how it gets to its bucket."""
    bucket, region, *elsewhere = sys.argv[1:]
    out = Path(*elsewhere) if elsewhere else RELEASE
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    directory = write(bucket, region, out)
    for path in sorted(directory.iterdir()):
        print(f"{path.stat().st_size:>12,} {path.name}")
    total = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{total:>12,} bytes in {directory}\n")
    print(f"Publish it: aws s3 sync {out} s3://{bucket}")


if __name__ == "__main__":
    main()
