"""Measure the time and memory of the analysis of a large run.

The real planner plans a run of 1000 nodes: two arms of 500, each with a ring of pairs, measured
together. The benchmark stores trials as the collector does: throughput with a series of intervals,
round trips with each packet's time. The real `analyze` then decides the run in a process of its
own. Its boto3 reads the trials page by page from a stand-in for DynamoDB and S3 on the loopback
interface. The figures therefore include decoding, but not the network to AWS and not Lambda.

Run as `python -m benchmarks.deciding [--nodes N] [--blocks N]`, or as a part of
`make bench-verdict`. Exit codes: 0 within 30 s, a tenth of the function's timeout, and 1 GB, 1 not.
"""

from __future__ import annotations

import argparse
import datetime
import http.server
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from botocore import xform_name

from benchmarks.points import Point, judge
from rackrate.executions.store import Store
from rackrate.measure.outputs import Drafts
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.items import block_items, planned_trials
from rackrate.resources import Resources
from rackrate.settings import NODE_GROUP_LABEL, Settings, StackArm
from rackrate.stages.run.plan import plan as plan_run
from rackrate.tools.base import Interval, Measurement, TestBase
from rackrate_contract.selectors import Selector

Json = dict[str, Any]

NODES, BLOCKS, SEED = 1000, 6, 7
#: A tenth of the timeout of AnalyzeFunction, and somewhat more than half of its memory.
MOST_SECONDS, MOST_BYTES = 30.0, 1_000_000_000
RUN = "deciding"
STARTED_AT = datetime.datetime(2026, 11, 21, 15, 0, tzinfo=datetime.UTC)
TABLE, BUCKET = "table", "bucket"
#: The largest answer of DynamoDB to a query.
PAGE_BYTES = 1_000_000
#: Variability (CV) of a trial around its pair, and of a pair around its arm; the true ratio.
TRIAL_NOISE, PAIR_NOISE, ADVANTAGE = 0.03, 0.05, 1.2


# -- a stand-in for what the store uses of DynamoDB and S3


class Records:
    """Items and objects. Also the client of DynamoDB and of S3 for the code of this process."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Json]] = {}
        self.objects: dict[str, bytes] = {}

    def client(self, service: str, **_: Any) -> Records:
        """Stand in for the method of a boto3 session."""
        del service
        return self

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> Json:
        """Stand in for S3's method."""
        self.objects[Key] = Body
        return {}

    def get_object(self, *, Key: str, **_: Any) -> Json:
        """Stand in for S3's method, for an object that exists."""
        return {"Body": io.BytesIO(self.objects[Key])}

    def put_item(self, *, Item: Json, **_: Any) -> Json:
        """Stand in for DynamoDB's method. It overwrites an item that exists."""
        self.items.setdefault(Item["pk"]["S"], {})[Item["sk"]["S"]] = Item
        return {}

    def update_item(self, **request: Any) -> Json:
        """Stand in for DynamoDB's method, for updates that only set attributes."""
        item = self.items.setdefault(request["Key"]["pk"]["S"], {}).setdefault(
            request["Key"]["sk"]["S"], dict(request["Key"])
        )
        values = request["ExpressionAttributeValues"]
        for alias, name in request["ExpressionAttributeNames"].items():
            item[name] = values[f":{alias.removeprefix('#')}"]
        return {"Attributes": item}

    def get_item(self, **request: Any) -> Json:
        """Stand in for DynamoDB's method."""
        key = request["Key"]
        item = self.items.get(key["pk"]["S"], {}).get(key["sk"]["S"])
        return {} if item is None else {"Item": item}

    def query(self, **request: Any) -> Json:
        """Stand in for DynamoDB's method: a page of items whose sort keys have a common prefix.

        The index of runs is empty: no other run went on at the same time.
        """
        if "IndexName" in request:
            return {"Items": []}
        values = request["ExpressionAttributeValues"]
        start = request.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        partition = self.items.get(values[":pk"]["S"], {})
        keys = [key for key in sorted(partition) if key > start]
        aliases = request.get("ExpressionAttributeNames", {})
        paths = re.findall(r"[^, ]+", request.get("ProjectionExpression", ""))
        size, page, last = 0, list[Json](), Json()
        for key in keys:
            if not key.startswith(values[":prefix"]["S"]):
                continue
            if size > PAGE_BYTES:
                return {"Items": page, "LastEvaluatedKey": last}
            item = partition[key]
            page.append(_projected(item, [path.split(".") for path in paths], aliases))
            size += len(json.dumps(item))
            last = {name: item[name] for name in ("pk", "sk")}
        return {"Items": page}


def _projected(item: Json, paths: Sequence[list[str]], aliases: Mapping[str, str]) -> Json:
    """An item's attributes at these paths. The store asks for one part of a map at most."""
    if not paths:
        return item
    record: Json = {}
    for name, *part in ([aliases[alias] for alias in path] for path in paths):
        inner = item.get(name, {}).get("M", {}) if part else item
        if part and part[0] in inner:
            record[name] = {"M": {part[0]: inner[part[0]]}}
        elif not part and name in item:
            record[name] = item[name]
    return record


def serve(records: Records) -> http.server.ThreadingHTTPServer:
    """Serve boto3 on the loopback: the header names DynamoDB's action, the path S3's object."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            action = xform_name(self.headers["X-Amz-Target"].partition(".")[2])
            response = getattr(records, action)(**json.loads(self._body()))
            self._answer(200, json.dumps(response).encode())

        def do_GET(self) -> None:
            content = records.objects.get(self._key())
            missing = b"<Error><Code>NoSuchKey</Code></Error>"
            self._answer(404 if content is None else 200, missing if content is None else content)

        def do_PUT(self) -> None:
            records.objects[self._key()] = self._body()
            self._answer(200, b"")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"]))

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def measured(module: str, nodes: int, blocks: int) -> tuple[int, Json, Records]:
    """Serve a measured run to a benchmark's `work` in a process of its own.

    Returns:
        The number of trials, what `work` returns, and what is stored then.

    Raises:
        subprocess.CalledProcessError: it failed, after it printed the error.
    """
    records = Records()
    plan(records, nodes=nodes, blocks=blocks)
    trials = measure(records)
    server = serve(records)
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        # The parent reads objects back, so write them without the chunks of a checksum.
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }
    code = f"import json; from {module} import work; print(json.dumps(work()))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        server.shutdown()
    return trials, json.loads(done.stdout), records


# -- a run that is measured but not decided


class Nodes:
    """A stand-in for the cluster that answers the planner."""

    is_ipv6 = False

    version = "1.36"

    def __init__(self, count: int) -> None:
        self._count = count

    def list(self, path: str, labels: str) -> list[Json]:
        """The nodes with a label `name=value`. Each group has half of all nodes."""
        del path
        group = labels.partition("=")[2]
        third = 1 if group == "treatment" else 2
        return [
            _node(f"ip-10-{third}-{number // 250}-{number % 250}.ec2.internal", group)
            for number in range(self._count // 2)
        ]

    @staticmethod
    def peek(path: str) -> Json:
        """The DaemonSet of the VPC CNI, the only object that the planner asks for by name."""
        del path
        container = {"name": "aws-node", "image": "ecr.test/amazon-k8s-cni:v1.20.4-eksbuild.1"}
        return {"spec": {"template": {"spec": {"containers": [container]}}}}


def _node(name: str, group: str) -> Json:
    return {
        "metadata": {
            "name": name,
            "labels": {
                NODE_GROUP_LABEL: group,
                "node.kubernetes.io/instance-type": "c5.large",
                "topology.kubernetes.io/zone": "us-east-1a",
                "topology.kubernetes.io/region": "us-east-1",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{zlib.crc32(name.encode()):017x}"},
        "status": {
            "capacity": {"cpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kernelVersion": "6.12.0-1.amzn2023.x86_64",
                "osImage": "Amazon Linux 2023.9.20260101",
                "kubeletVersion": "v1.36.3-eks-0123456",
                "containerRuntimeVersion": "containerd://2.1.0",
            },
        },
    }


class InstanceTypes:
    """A stand-in for EC2 that answers the planner. The nodes' places are unknown to it."""

    @staticmethod
    def describe_instances(**_: Any) -> Json:
        """No instance."""
        return {"Reservations": []}

    @staticmethod
    def describe_placement_groups(**_: Any) -> Json:
        """No placement group."""
        return {"PlacementGroups": []}

    @staticmethod
    def describe_instance_types(**_: Any) -> Json:
        """EC2's description of a c5.large."""
        card = {
            "NetworkCardIndex": 0,
            "BaselineBandwidthInGbps": 0.75,
            "PeakBandwidthInGbps": 10.0,
        }
        return {
            "InstanceTypes": [{"InstanceType": "c5.large", "NetworkInfo": {"NetworkCards": [card]}}]
        }


def planner(
    records: Records, *, nodes: int, tool_image: str = "tools", host_namespace: str = ""
) -> Resources:
    """The planner's resources: a stack of `nodes` nodes in two arms."""
    arms = tuple(
        StackArm(
            name,
            placement,
            name == "baseline",
            (name,),
            Selector.parse(f"{NODE_GROUP_LABEL}={name}"),
        )
        for name, placement in (("treatment", "cluster"), ("baseline", "none"))
    )
    resources = Resources()
    resources.settings = Settings(
        *(TABLE, BUCKET, "cluster", "rackrate", tool_image, arms, nodes // 2, False),
        host_namespace=host_namespace,
    )
    resources.store = Store(TABLE, BUCKET, records)
    resources.cluster = cast(Any, Nodes(nodes))
    resources.ec2 = InstanceTypes()
    resources.eks = resources.pricing = None
    resources.region = "us-east-1"
    return resources


def plan(records: Records, *, nodes: int, blocks: int) -> None:
    """Store a run's plan and schedule, with the three tests of the catalogue on a ring of pairs."""
    plan_run(
        {
            "tests": ["tcp-1", "tcp-8", "rtt"],
            "blocks": blocks,
            "pairing": "ring",
            "load": "together",
            "seed": SEED,
        },
        planner(records, nodes=nodes),
        run_id=RUN,
        execution_arn="",
    )


def measure(records: Records) -> int:
    """Store a measurement for every planned trial and the warm-up. Returns the count without it."""
    store = Store(TABLE, BUCKET, records)
    planned = store.runs.plan(RUN)
    items, warm_ups = store.runs.items(RUN), store.runs.items(RUN, "warm_up.json")
    chance = random.Random(SEED)
    luck: dict[tuple[str, str], float] = {}
    for item in block_items([*warm_ups, *items]):
        drafts = Drafts([item], planned, 1, {})
        measurements = {
            key: _measurement(
                drafts.test_of(key),
                ADVANTAGE if key.arm == "treatment" else 1.0,
                luck.setdefault((key.client, key.server), chance.lognormvariate(0, PAIR_NOISE))
                * chance.lognormvariate(0, TRIAL_NOISE),
                chance,
            )
            for key in item.trials
        }
        samples_key = store.trials.put_raw_values(
            RUN,
            f"samples/{item.block:04d}-{item.round}.1.json.gz",
            {key.id: RawValues.of(measured) for key, measured in measurements.items()},
        )
        for key, measured in measurements.items():
            trial = drafts.of(key).measured(drafts.test_of(key), measured)
            store.trials.put(RUN, _stored(trial, samples_key))
    return len(planned_trials(items))


def _measurement(
    test: TestBase, advantage: float, noise: float, chance: random.Random
) -> Measurement:
    """Make up a tool's measurement. `advantage` is the arm's ratio, `noise` the trial's CV."""
    if test.primary.unit == "s":
        centre = 400e-6 * noise / advantage
        times = tuple(centre * chance.lognormvariate(0, 0.2) for _ in range(30))
        median = sorted(times)[len(times) // 2]
        return Measurement(
            {metric.name: median for metric in test.metrics},
            {metric.samples: times for metric in test.metrics if metric.samples},
            details={"transmitted": 30, "received": 30, "loss_ratio": 0.0},
        )
    centre = 5e9 * noise * advantage
    series = tuple(
        Interval(second, second + 1, centre * chance.lognormvariate(0, 0.02), 3, 500_000)
        for second in range(int(test.expected_seconds))
    )
    return Measurement(
        {metric.name: centre for metric in test.metrics},
        series=series,
        details={
            "seconds": test.expected_seconds,
            "received_bytes": int(centre * test.expected_seconds / 8),
            "sent_bits_per_second": centre,
            "retransmits": 30,
            "client_cpu_percent": 20.0,
            "server_cpu_percent": 30.0,
        },
        version="iperf 3.12",
    )


def _stored(trial: Trial, samples_key: str) -> Trial:
    """A trial as the collector stores it.

    A block starts each minute, by the kubelet's clock and by the tool's.
    """
    started_at = STARTED_AT + datetime.timedelta(minutes=trial.block)
    details = dict(trial.details)
    if trial.test != "rtt":
        details["started_at_epoch_seconds"] = started_at.timestamp()
    return trial.model_copy(
        update={
            "started_at": f"{started_at:%Y-%m-%dT%H:%M:%SZ}",
            "finished_at": f"{started_at:%Y-%m-%dT%H:%M}:10Z",
            "raw_key": f"runs/{RUN}/raw/{trial.key.id}.1.txt",
            "samples_key": samples_key,
            "details": details,
        }
    )


# -- deciding


def work() -> Json:
    """Analyze the served run. Returns the time and memory that it took."""
    from rackrate.stages.run.analyze import analyze

    resources = Resources()
    resources.store = Store(TABLE, BUCKET)
    started, spent = time.monotonic(), time.process_time()
    analysis = analyze(RUN, resources, after_failure=False)
    return {
        "seconds": time.monotonic() - started,
        "processor_seconds": time.process_time() - spent,
        "peak_bytes": peak_bytes(),
        "found": analysis.to_json(),
    }


def peak_bytes() -> int:
    """The peak memory of this process, in bytes.

    VmHWM is the peak of this address space. The value of getrusage would include what the parent
    held when it started this process.
    """
    status = Path("/proc/self/status").read_text("ascii", errors="replace")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def judged(cost: Mapping[str, Any]) -> Point:
    """Whether the analysis stayed within the limits."""
    # An analysis cannot take no time or no memory: then something else was measured.
    return Point(
        0 < cost["seconds"] < MOST_SECONDS and 0 < cost["peak_bytes"] < MOST_BYTES,
        f"deciding took {cost['seconds']:.1f} s ({cost['processor_seconds']:.1f} s of processor)"
        f" and {cost['peak_bytes']} bytes ({cost['peak_bytes'] / 1e9:.2f} GB) at most; allowed are"
        f" {MOST_SECONDS:.0f} s and {MOST_BYTES / 1e9:.0f} GB",
    )


def sizes(about: str) -> argparse.ArgumentParser:
    """A parser of the options that say how large a run is."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of both arms together")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    return parser


def main() -> Iterator[Point]:
    """Run the benchmark."""
    options = sizes("What deciding a large run costs.").parse_args()
    trials, cost, _ = measured("benchmarks.deciding", options.nodes, options.blocks)
    print(f"{options.nodes} nodes, {options.blocks} blocks, 3 tests, {trials} trials, seed {SEED}")
    print(f"analyze returned {cost['found']}")
    yield judged(cost)


if __name__ == "__main__":
    sys.exit(judge(main))
