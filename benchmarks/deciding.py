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
import bisect
import datetime
import http.server
import io
import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.schedule import block_items, planned_trials
from rackrate.resources import Resources
from rackrate.selectors import Selector
from rackrate.settings import NODE_GROUP_LABEL, Settings, StackArm
from rackrate.stages.collect import Drafts
from rackrate.stages.plan import plan as plan_run
from rackrate.store import Store
from rackrate.tools import Interval, Measurement, TestBase

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


class Pages:
    """The items as DynamoDB's answers to queries.

    They are encoded in advance, so that the benchmark measures the store's time and not the
    stand-in's. Items written after that are not in the answers.
    """

    def __init__(self, records: Records) -> None:
        self._partitions = {
            pk: [
                (
                    sk,
                    {
                        name: f"{json.dumps(name)}:{json.dumps(value)}"
                        for name, value in item.items()
                    },
                    {
                        f"{name}.{part}": f"{json.dumps(name)}:{json.dumps({'M': {part: inner}})}"
                        for name, value in item.items()
                        for part, inner in value.get("M", {}).items()
                    },
                )
                for sk, item in sorted(items.items())
            ]
            for pk, items in records.items.items()
        }

    def answer(self, request: Mapping[str, Any]) -> str:
        """One page, as JSON, of a partition's items whose sort keys have a common prefix.

        The index of runs is empty: no other run went on at the same time.
        """
        if "IndexName" in request:
            return '{"Items":[]}'
        values = request["ExpressionAttributeValues"]
        partition = self._partitions.get(values[":pk"]["S"], [])
        start = request.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        aliases = request.get("ExpressionAttributeNames", {})
        projection = request.get("ProjectionExpression")
        paths = projection.split(", ") if projection else []
        wanted = [".".join(aliases[alias] for alias in path.split(".")) for path in paths]
        size, page, last = 0, [], ""
        previous: Mapping[str, str] = {}
        for index in range(bisect.bisect_right(partition, start, key=_sort_key), len(partition)):
            sk, item, parts = partition[index]
            if not sk.startswith(values[":prefix"]["S"]):
                continue
            if size > PAGE_BYTES:
                last = f',"LastEvaluatedKey":{{{previous["pk"]},{previous["sk"]}}}'
                break
            chosen = [*item.values()]
            if wanted:  # the store asks for one part of a map at most
                found = (item.get(path) or parts.get(path) for path in wanted)
                chosen = [text for text in found if text]
            page.append("{" + ",".join(chosen) + "}")
            size += sum(map(len, item.values()))
            previous = item
        return f'{{"Items":[{",".join(page)}]{last}}}'


def _sort_key(entry: tuple[str, Json, Json]) -> str:
    return entry[0]


def serve(records: Records) -> http.server.ThreadingHTTPServer:
    """Serve boto3 on the loopback: the header names DynamoDB's action, the path S3's object."""
    pages = Pages(records)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = self.headers["X-Amz-Target"].partition(".")[2]
            acts: Mapping[str, Callable[..., str]] = {
                "Query": pages.answer,
                "GetItem": lambda request: json.dumps(records.get_item(**request)),
                "PutItem": lambda request: json.dumps(records.put_item(**request)),
                "UpdateItem": lambda request: json.dumps(records.update_item(**request)),
            }
            self._answer(200, acts[action](body).encode(), "application/x-amz-json-1.0")

        def do_GET(self) -> None:
            found = records.objects.get(self._key())
            if found is None:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", "application/xml")
            else:
                self._answer(200, found, "application/octet-stream")

        def do_PUT(self) -> None:
            # boto3 encodes the body in chunks. Nothing reads it back, so store it undecoded.
            records.objects[self._key()] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200, b"", "application/xml")

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


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
    found = Resources()
    found.settings = Settings(
        *(TABLE, BUCKET, "cluster", "rackrate", tool_image, arms, nodes // 2, False),
        host_namespace=host_namespace,
    )
    found.store = Store(TABLE, BUCKET, records)
    found.cluster = cast(Any, Nodes(nodes))
    found.ec2 = InstanceTypes()
    found.eks = found.pricing = None
    found.region = "us-east-1"
    return found


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
    planned = store.plan(RUN)
    items, warm_ups = store.items(RUN), store.items(RUN, "warm_up.json")
    chance = random.Random(SEED)
    luck: dict[tuple[str, str], float] = {}
    for item in block_items([*warm_ups, *items]):
        drafts = Drafts(item, planned, 1, {})
        found = {
            key: _measurement(
                drafts.tests[key.test],
                ADVANTAGE if key.arm == "treatment" else 1.0,
                luck.setdefault((key.client, key.server), chance.lognormvariate(0, PAIR_NOISE))
                * chance.lognormvariate(0, TRIAL_NOISE),
                chance,
            )
            for key in item.trials
        }
        samples_key = store.put_raw_values(
            RUN,
            f"samples/{item.block:04d}-{item.round}.1.json.gz",
            {key.id: RawValues.of(measured) for key, measured in found.items()},
        )
        for key, measured in found.items():
            trial = drafts.of(key).measured(drafts.tests[key.test], measured)
            store.put_trial(RUN, _stored(trial, samples_key))
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


def decide() -> None:
    """Analyze the served run, and print its time and memory as JSON. Runs in its own process."""
    from rackrate.stages.analyze import analyze

    resources = Resources()
    resources.store = Store(TABLE, BUCKET)
    started, spent = time.monotonic(), time.process_time()
    found = analyze(RUN, resources, after_failure=False)
    cost = {
        "seconds": time.monotonic() - started,
        "processor_seconds": time.process_time() - spent,
        "peak_bytes": peak_bytes(),
        "found": found.to_json(),
    }
    print(json.dumps(cost))


def peak_bytes() -> int:
    """The peak memory of this process, in bytes.

    VmHWM is the peak of this address space. The value of getrusage would include what the parent
    held when it started this process.
    """
    for line in _lines(Path("/proc/self/status")):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _lines(path: Path) -> Iterator[str]:
    if path.exists():
        yield from path.read_text("ascii", errors="replace").splitlines()


def judge(cost: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the analysis stayed within the limits, and a line that says so."""
    # An analysis cannot take no time or no memory: then something else was measured.
    holds = 0 < cost["seconds"] < MOST_SECONDS and 0 < cost["peak_bytes"] < MOST_BYTES
    return holds, (
        f"{'PASS' if holds else 'FAIL'}  deciding took {cost['seconds']:.1f} s"
        f" ({cost['processor_seconds']:.1f} s of processor) and {cost['peak_bytes']} bytes"
        f" ({cost['peak_bytes'] / 1e9:.2f} GB) at most; allowed are {MOST_SECONDS:.0f} s and"
        f" {MOST_BYTES / 1e9:.0f} GB"
    )


def main() -> int:
    """Run the benchmark. Returns the exit code."""
    parser = argparse.ArgumentParser(description="What deciding a large run costs.")
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of both arms together")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--decide", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.decide:
        decide()
        return 0
    records = Records()
    plan(records, nodes=asked.nodes, blocks=asked.blocks)
    trials = measure(records)
    server = serve(records)
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.deciding", "--decide"],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    server.shutdown()
    print(f"{asked.nodes} nodes, {asked.blocks} blocks, 3 tests, {trials} trials, seed {SEED}")
    if done.returncode != 0:
        print("FAIL  deciding ended with an error: see above")
        return 1
    cost = json.loads(done.stdout)
    print(f"analyze returned {cost['found']}")
    holds, line = judge(cost)
    print(line)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
