"""`rackrate pool`: earlier runs become the draws of one answer; what differed comes first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from .campaigns import campaign, step
from .conftest import DeployedStack, Rackrate, client, failing, machine, results, table

POOL = "pool-20261121-170000-1f2e"
DIFFERENCES = [{"what": "kernel", "run": "6.12.1", "with": "6.1.9"}]


@pytest.fixture
def pooling(stack: DeployedStack) -> DeployedStack:
    """A stack with runs `r1` and `r2`, and `m1` and `m2` of the baseline `main`."""
    for run_id in ("r1", "r2", "m1", "m2"):
        stack.record(run_id, status="succeeded", trials_measured=36)
        stack.put(run_id, "report.html", run_id.encode())
    table(stack.table).put_item(
        Item={"pk": "baseline#main", "sk": "baseline", "name": "main", "run_ids": ["m1", "m2"]}
    )
    stack.define_campaign(machine(("Done", stack.recording_campaign("succeeded", "done"))))
    steps = [step(1, run_id="r1"), step(2, run_id="far", source="eu-stack")]
    answers = json.loads(campaign())["answers"][:1]
    answers[0]["draws"][0]["run_id"] = "m1, m2"
    facts = {"kind": "pool", "budget_dollars": None, "dollars": None}
    content = campaign(facts, steps=steps, answers=answers,
                       differences=DIFFERENCES, pooling="3 runs count as 2 draws.")  # fmt: skip
    stack.put_campaign(POOL, "campaign.json", content)
    stack.put_campaign(POOL, "report.html", b"page")
    return stack


def pool(rackrate: Rackrate, *arguments: str | Path, code: int = 0) -> Result:
    """`rackrate pool` with a known id."""
    return rackrate("pool", *arguments, "--name", POOL, code=code)


def test_what_differed_is_printed_before_the_answers(
    pooling: DeployedStack, rackrate: Rackrate
) -> None:
    done = pool(rackrate, "r1", "main", "--require", "tcp-1 better")
    assert pooling.input_of(pooling.campaigns()[0]) == {"pool": ["r1", "main"]}
    assert done.stdout.index("6.12.1") < done.stdout.index("+66 to +106 %")
    assert done.stdout.index("3 runs count as 2 draws.") < done.stdout.index("+66 to +106 %")
    assert "\n2 runs" in done.stdout and "2 runs in" not in done.stdout
    assert Path("out", POOL, "report.html").read_bytes() == b"page"
    for run_id in ("r1", "m1", "m2"):
        assert Path("out", run_id, "report.html").exists(), "runs of one draw have a page each"
    assert not Path("out/far").exists(), "it lies in another stack's bucket"


def test_results_of_other_stacks_are_uploaded(
    pooling: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_bytes(results("far-1"))
    two.write_bytes(results("far-2"))
    pool(rackrate, one, "r2", two)
    keys = [f"pools/{POOL}/{number}.json" for number in (1, 2)]
    assert pooling.input_of(pooling.campaigns()[0]) == {
        "pool": [{"results": keys[0]}, "r2", {"results": keys[1]}]
    }
    for key, path in zip(keys, (one, two), strict=True):
        stored = client("s3").get_object(Bucket=pooling.bucket, Key=key)["Body"].read()
        assert stored == path.read_bytes()


def test_wrong_runs_are_refused_in_one_sentence_before_anything_is_stored(
    pooling: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    pooling.record("empty", status="failed", trials_measured=0)
    pooling.record("going", status="running")
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "r1.json").write_bytes(results("r1"))
    for arguments, message in (
        (("r1",), "2 to 60 runs, and these are 1"),
        (("r1", "nope"), 'no run and no baseline "nope"'),
        (("r1", "empty"), "no measured trials"),
        (("r1", "going"), "still going"),
        (("main", "m2"), "The run m2 is named twice"),
        (("r1", tmp_path / "r1.json"), "The run r1 is named twice"),
        (("r1", tmp_path / "none.json"), "There is no file"),
        (("r1", tmp_path / "bad.json"), "is not the results.json of a run"),
        (("r1", tmp_path / "."), "cannot be read"),
        (("r1", "r2", "--require", "tcp-1 better than before"), 'leave out "than before"'),
    ):
        assert message in rackrate.refused("pool", *arguments)
    assert pooling.campaigns() == []
    listed = client("s3").list_objects_v2(Bucket=pooling.bucket, Prefix="pools/")
    assert listed["KeyCount"] == 0


def test_runs_with_nothing_in_common_are_refused_by_the_stack(
    pooling: DeployedStack, rackrate: Rackrate
) -> None:
    failure = failing("InvalidCampaign", "pool: the runs have no test in common; name others")
    pooling.define_campaign(machine(("Refuse", failure)))
    client("s3").delete_object(Bucket=pooling.bucket, Key=f"campaigns/{POOL}/campaign.json")
    pooling.record_campaign(POOL, status="invalid", kind="pool")
    done = pool(rackrate, "r1", "r2", code=2)
    assert "the runs have no test in common" in done.stderr
