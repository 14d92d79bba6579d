"""The lab's process tree: whatever ends it, nothing outlives it, and the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from lab import daemon, stack
from lab.errors import LabError
from lab.up import Artifacts, bring_up, network_scale, prepare
from tests.lab.machine import (
    Process,
    Traces,
    alive,
    lab_processes,
    private_cache,
    process_1,
    what_is_left,
)
from tests.lab.waiting import BUSY, eventually


@pytest.fixture(scope="module")
def artifacts() -> Artifacts:
    """What a lab runs, made when the cache lacks it."""
    return prepare(lambda step: None)


@pytest.fixture
def untouched(artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """The machine before; whatever a test did, no lab is there afterwards.

    The test has a cache of its own, because a lab of the user's may be up.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(private_cache("daemon")))
    daemon.stop()
    yield Traces.now()
    daemon.stop()


def start(artifacts: Artifacts, *, cluster: bool = True) -> tuple[int, set[Process]]:
    """A lab without the stack: its keeper and all of its processes, once the region answers."""
    keeper = daemon.start(
        programs=artifacts.programs,
        kubernetes=artifacts.kubernetes,
        images=artifacts.images,
        network_scale=network_scale(),
        lock=daemon.acquire_lock(),
        tied=True,
    )
    status = eventually(
        lambda: stack.read_status(daemon.state_directory() / "status.json"), seconds=30
    )
    if cluster:
        # So that there are programs, namespaces and links that could stay.
        create_cluster(status)
    processes = lab_processes()
    return keeper, processes | {(keeper, daemon.process_start_time(keeper) or "")}


def create_cluster(status: dict[str, Any]) -> None:
    """A control plane without nodes."""
    ec2 = client(status, "ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{z}")
        for n, z in ((0, "a"), (1, "b"))
    ]
    client(status, "eks").create_cluster(
        name="alone",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": [s["Subnet"]["SubnetId"] for s in subnets]},
    )
    eventually(lambda: (daemon.state_directory() / "kubeconfig").exists(), seconds=30)
    assert namespaces() == ["fabric"]
    assert len(lab_processes()) >= 4, "process 1, the region, etcd and the API server"


def client(status: dict[str, Any], service: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=status["endpoint_url"],
        region_name=status["region"],
        aws_access_key_id=status["access_key_id"],
        aws_secret_access_key=status["secret_access_key"],
    )


def namespaces() -> list[str]:
    """The named network namespaces inside the lab."""
    listing = subprocess.run(
        [*daemon.enter("region"), "ls", "/run/netns"], capture_output=True, text=True, check=False
    )
    return listing.stdout.split()


def test_a_lab_whose_process_1_is_killed_ends_at_once_and_the_next_one_starts(
    untouched: Traces, artifacts: Artifacts
) -> None:
    keeper, processes = start(artifacts)
    inside = process_1()
    os.kill(inside, signal.SIGKILL)
    os.waitpid(keeper, 0)  # it has cleaned up when it ends
    assert what_is_left(untouched, processes) == {}
    assert daemon.stop() is False, "there was a lab left to remove"
    keeper, _ = start(artifacts, cluster=False)
    assert daemon.stop() is True
    os.waitpid(keeper, 0)


def test_a_lab_whose_keeper_is_killed_leaves_nothing_running_and_the_next_start_cleans_up(
    untouched: Traces, artifacts: Artifacts
) -> None:
    keeper, processes = start(artifacts)
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)
    eventually(lambda: not alive(processes), seconds=10)
    now = Traces.now()
    assert now.mounts == untouched.mounts
    assert now.links == untouched.links
    assert now.namespaces == untouched.namespaces
    assert daemon.state_directory().exists(), "nobody was there to remove the files"
    keeper, processes = start(artifacts, cluster=False)
    os.kill(keeper, signal.SIGTERM)
    os.waitpid(keeper, 0)
    assert what_is_left(untouched, processes) == {}


def test_a_lab_ends_with_the_process_that_it_is_tied_to(
    untouched: Traces, artifacts: Artifacts
) -> None:
    program = (
        "import sys, time\n"
        "from lab import daemon\n"
        "from pathlib import Path\n"
        "daemon.start(programs=Path(sys.argv[1]), kubernetes=Path(sys.argv[2]),"
        " images=Path(sys.argv[3]), network_scale=0.1, lock=daemon.acquire_lock(), tied=True)\n"
        "time.sleep(60)\n"
    )
    paths = [str(artifacts.programs), str(artifacts.kubernetes), str(artifacts.images)]
    with subprocess.Popen([sys.executable, "-c", program, *paths], cwd=stack.REPOSITORY) as child:
        eventually((daemon.state_directory() / "status.json").exists, seconds=30)
        processes = lab_processes()
        child.kill()
    eventually(lambda: not alive(processes), seconds=10)
    eventually(lambda: what_is_left(untouched, processes) == {}, seconds=10)


def test_an_interrupted_start_leaves_nothing(
    untouched: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at any step of `lab up` or `make demo` raises through `bring_up`."""
    processes: set[Process] = set()

    def interrupted() -> None:
        eventually(lambda: (daemon.state_directory() / "status.json").exists(), seconds=30)
        processes.update(lab_processes())
        raise KeyboardInterrupt

    monkeypatch.setattr(stack, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bring_up(lambda step: None, tied=True)
    assert processes
    eventually(lambda: what_is_left(untouched, processes) == {}, seconds=10)


def test_ctrl_c_while_a_demo_is_set_up_takes_the_lab_down(untouched: Traces) -> None:
    # A shell starts what it puts in the background with SIGINT ignored, and that is inherited.
    at_a_terminal = ["env", "--default-signal=INT"]
    with subprocess.Popen(
        [*at_a_terminal, sys.executable, "-m", "lab", "demo"],
        cwd=stack.REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        eventually((daemon.state_directory() / "status.json").exists, seconds=60)
        processes = lab_processes()
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to everything in front
        output, errors = demo.communicate(timeout=BUSY * 30)
    assert demo.returncode == 130
    assert "taking the lab down" in output
    assert "Traceback" not in errors
    assert processes
    assert what_is_left(untouched, processes) == {}


def test_of_two_starts_at_once_one_says_that_the_other_has_the_lab(untouched: Traces) -> None:
    lock = daemon.acquire_lock()
    refusals: list[str] = []

    def second() -> None:
        try:
            bring_up(lambda step: None, tied=True)
        except LabError as error:
            refusals.append(str(error))

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(30)
    os.close(lock)
    assert len(refusals) == 1
    assert "already up or another demo is running" in refusals[0]


def test_a_port_in_use_is_passed_over() -> None:
    first = daemon.listen(daemon.AWS_PORT)
    second = daemon.listen(first.getsockname()[1])
    assert second.getsockname()[1] > first.getsockname()[1]
    first.close()
    second.close()


def test_processes_differ_from_later_ones_with_the_same_id() -> None:
    with subprocess.Popen(["sleep", "30"]) as sleeping:
        started = daemon.process_start_time(sleeping.pid)
        assert started is not None
        assert alive({(sleeping.pid, started)})
        assert not alive({(sleeping.pid, "0")})
        sleeping.kill()
        sleeping.wait()
    assert daemon.process_start_time(sleeping.pid) is None
