"""`rackrate report`: the page with the files that it links to, or a link to the page."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import boto3
import pytest
from rackrate_cli.reading.stack import Stack

from .conftest import DeployedStack, Rackrate, client, results, table

PAGE = b"<!doctype html><title>r1</title><a href='raw/0001_t_rtt_a_b.1.txt'>raw</a>"


def trial(stack: DeployedStack, run_id: str, number: int, text: bytes | None) -> None:
    """Write a trial's item, and its raw output unless `text` is None."""
    name = f"{number:04}_treatment_rtt_a_b.1.txt"
    key = f"runs/{run_id}/raw/{name}"
    sk = f"trial#{number:04}#treatment#rtt#a#b"
    table(stack.table).put_item(Item={"pk": f"run#{run_id}", "sk": sk, "raw_key": key})
    if text is not None:
        client("s3").put_object(Bucket=stack.bucket, Key=key, Body=text)


@pytest.fixture
def reported(stack: DeployedStack) -> DeployedStack:
    """A stack with a run that has a page and three trials, one without its raw output."""
    stack.record("r1", status="succeeded", trials_measured=3)
    stack.put("r1", "report.html", PAGE)
    stack.put("r1", "results.json", results("r1"))
    trial(stack, "r1", 1, b"first")
    trial(stack, "r1", 2, b"second")
    trial(stack, "r1", 3, None)
    # A trial that never ran has no raw output.
    table(stack.table).put_item(Item={"pk": "run#r1", "sk": "trial#0004#treatment#rtt#a#b"})
    return stack


def test_the_page_is_copied_and_its_path_is_all_that_is_printed(
    reported: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    page = tmp_path / "out" / "r1" / "report.html"
    assert rackrate("report", "latest").stdout == f"{page}\n"
    assert page.read_bytes() == PAGE
    assert not Path("out/r1/raw").exists()
    assert not Path("out/latest").exists(), "an old run is not the newest one"


def test_raw_outputs_are_put_where_the_page_links_to(
    reported: DeployedStack, rackrate: Rackrate
) -> None:
    done = rackrate("report", "r1", "--raw", "--json")
    assert {path.name: path.read_bytes() for path in Path("out/r1/raw").iterdir()} == {
        "0001_treatment_rtt_a_b.1.txt": b"first",
        "0002_treatment_rtt_a_b.1.txt": b"second",
    }
    assert json.loads(done.stdout)["raw_outputs"] == {"copied": 2, "missing": 1}
    assert "2 copied, 1 not in the bucket any more" in done.stderr


def test_a_run_brings_its_raw_outputs_along_up_to_a_number(
    reported: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackrate_cli.reading.files.RAW_WITH_A_RUN", 1)
    done = rackrate("watch", "r1", "--out", "out")
    assert len(list(Path("out/r1/raw").iterdir())) == 1
    assert "`rackrate report r1 --raw`" in " ".join(done.stderr.split())


def test_the_link_opens_without_credentials_and_says_how_long(
    reported: DeployedStack, rackrate: Rackrate
) -> None:
    done = rackrate("report", "r1", "--url", "--hours", "2")
    address = done.stdout.strip()
    with urllib.request.urlopen(address) as response:
        assert response.read() == PAGE
    assert "X-Amz-Expires=7200" in address
    assert "holds for 2 hours" in " ".join(done.stderr.split())
    assert list(Path().iterdir()) == [], "a link needs no directory"


def test_a_link_of_temporary_credentials_names_its_end(
    reported: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    done = rackrate("report", "r1", "--url", "--json")
    document = json.loads(done.stdout)
    assert document["temporary_credentials"] is True
    assert document["seconds"] == 24 * 3600
    assert "ends with them if that is sooner" in " ".join(done.stderr.split())


def test_what_has_no_page_is_refused_in_one_sentence(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("going", status="running", trials_measured=3)
    stack.record("empty", status="failed", trials_measured=0)
    stack.record("aborted", status="aborted", trials_measured=3)
    for run_id, message in (
        ("nope", 'no run "nope"'),
        ("going", "still going"),
        ("empty", "no measured trials"),
        ("aborted", "left no report.html"),
    ):
        assert message in rackrate.refused("report", run_id)
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-3", "cn-north-1"])
def test_the_link_names_the_host_of_its_region(
    region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The global host redirects to another host, for which the signature is not valid."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    outputs = {"BucketName": "bucket", "TableName": "table", "StateMachineArn": "arn"}
    stack = Stack("rackrate", outputs, boto3.Session("key", "secret", region_name=region))
    address = stack.link("runs/r1/report.html", 60)
    assert address.startswith(f"https://bucket.s3.{region}.amazonaws.com")


def test_a_run_named_like_another_directory_overwrites_nothing(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("..", status="succeeded", trials_measured=1)
    stack.put("..", "report.html", PAGE)
    stack.put("..", "results.json", results(".."))
    Path("results.json").write_text("mine")
    assert "no name for a directory" in rackrate.refused("report", "..")
    assert Path("results.json").read_text() == "mine"
