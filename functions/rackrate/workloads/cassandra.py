"""Reads and writes of a Cassandra ring, measured by latte.

Projects: [Cassandra](https://cassandra.apache.org), [latte](https://github.com/pkolaczk/latte). A
request goes from the load pod to a member that has the row, and is answered once as many replicas
as the consistency level asks for have answered that member.

- **Reported time**: from sending a request until its answer.
- **Values**: the median and percentiles of the requests' times, and the requests per second and
  member. latte counts the times in an HDR histogram, with steps between 1/2048 and 1/1024 of a
  value. Percentiles of an arm are those of its merged histograms.
- **Samples**: the histogram of each trial.
- **The ring**: each member has one token, and the tokens share the ring equally, so that each
  member has the same part of the rows. A table is made with `replicas` copies of each row.
- **Data**: one load pod writes all rows before the first measurement, at the consistency level
  `ALL`. With `reload` it empties the table (`TRUNCATE`) and writes them again after each trial.
- **Requests**: rows are drawn at random. A trial in which a request failed or was repeated, or a
  read found no row, has no value.
- **Memory**: half of what a member reserves is Java's heap, and a sixteenth each are the file cache
  and the network buffers. With data in memory it is the same of the other half. With a heap below
  2 GiB Java collects garbage in one thread.
- **An image of your own**: members run in the project's image too, such as
  `docker.io/library/cassandra` by digest, which has Java and the jars in the same place. The
  stack's parameter `AllowedImages` must have it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from rackrate.histograms import Histogram, decoded
from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    PERCENTILES,
    REQUESTS,
    SECONDS,
    SHORT_REASON,
    Detail,
    LatencyTest,
    Measurement,
    Metric,
    ParseError,
    Port,
    TimedTest,
    complaint,
    extremes_and_mean,
    least_values,
    refusal,
)
from rackrate.workloads.base import (
    DATA,
    FILES,
    OWN_NUMBER,
    StorageField,
    Volume,
    WorkloadTest,
    operations,
)

#: Cassandra's own ports: for clients, and for the other members.
CLIENTS, PEERS = 9042, 7000
_TOKENS = 2**64
#: Whom a member asks for the others. A seed starts alone if it finds none yet, so all of them would
#: be too many in a large ring.
_SEEDS = 3
_LEAST_MIB = 768
#: So many rows a second are expected to be loaded, after connecting.
_ROWS_PER_SECOND, _CONNECTING = 5000, 10.0
_LONGEST_REPORT = 200_000
_COMPLAINT = re.compile(r"^error: ([^\n]{1,400})", re.MULTILINE)
_NEWS = re.compile(r"^info: [^\n]{0,400}\n", re.MULTILINE)
Consistency = Literal["ONE", "QUORUM", "ALL"]

_LOAD = """\
const ROWS = latte::param!("rows", 1);
const BYTES = latte::param!("bytes", 1);
const REPLICAS = latte::param!("replicas", 1);
const NUMBER = latte::param!("number", 0);

pub async fn prepare(db) {
    db.load_cycle_count = ROWS;
    db.execute(`CREATE KEYSPACE IF NOT EXISTS rackrate WITH replication = \\
        {'class': 'SimpleStrategy', 'replication_factor': ${REPLICAS}}`).await?;
    db.execute("CREATE TABLE IF NOT EXISTS rackrate.rows (id bigint PRIMARY KEY, value blob)")
        .await?;
    db.prepare("write", "INSERT INTO rackrate.rows (id, value) VALUES (:id, :value)").await?;
    db.prepare("read", "SELECT value FROM rackrate.rows WHERE id = :id").await?;
}

pub async fn erase(db) {
    db.execute("TRUNCATE TABLE rackrate.rows").await?;
}

pub async fn load(db, i) {
    db.execute_prepared("write", [i, latte::blob(i, BYTES)]).await?
}

pub async fn write(db, i) {
    db.execute_prepared("write", [latte::hash2(i, NUMBER) % ROWS, latte::blob(i, BYTES)]).await?
}

pub async fn read(db, i) {
    db.execute_prepared("read", [latte::hash2(i, NUMBER) % ROWS]).await?
}
"""

#: What is logged ends with the reason of an exception and has no stack trace, so that the last
#: error tells why a member ended.
_LOGBACK = """\
<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder>
      <pattern>%-5level %date{ISO8601} %msg%replace( %rEx{1}){'(?s)\\n.*', ''}%nopex%n</pattern>
    </encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
"""

#: What Cassandra's own start script gives to Java 17 (conf/jvm17-server.options).
_OPENED = """\
-Djdk.attach.allowAttachSelf=true
--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED
--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED
--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED
--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED
--add-exports=java.rmi/sun.rmi.transport=ALL-UNNAMED
--add-exports=java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED
--add-exports=java.sql/java.sql=ALL-UNNAMED
--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED
--add-exports=jdk.attach/sun.tools.attach=ALL-UNNAMED
--add-exports=java.base/java.lang.ref=ALL-UNNAMED
--add-exports=java.base/java.util=ALL-UNNAMED
--add-opens=java.base/java.lang.module=ALL-UNNAMED
--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED
--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED
--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED
--add-opens=java.base/jdk.internal.math=ALL-UNNAMED
--add-opens=java.base/jdk.internal.module=ALL-UNNAMED
--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED
--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED
--add-opens=java.base/sun.nio.ch=ALL-UNNAMED
--add-opens=java.base/java.io=ALL-UNNAMED
--add-opens=java.base/java.lang=ALL-UNNAMED
--add-opens=java.base/java.util=ALL-UNNAMED
--add-opens=java.base/java.util.concurrent=ALL-UNNAMED
--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED
--add-opens=java.base/java.nio=ALL-UNNAMED
--add-opens=java.base/java.lang.reflect=ALL-UNNAMED
"""


class Test(TimedTest, LatencyTest, WorkloadTest):
    """A Cassandra ring under reads and writes; its values are the latency of requests, and their
    rate."""

    ports: ClassVar[tuple[Port, ...]] = (Port(CLIENTS), Port(PEERS))
    #: Java compiles while it starts, and on few cores many members do so at once.
    ready_seconds: ClassVar[int] = 300
    latency: ClassVar[str] = "of the requests' times"
    latency_step: ClassVar[float] = 1e-9
    latency_digits: ClassVar[int | None] = 4
    large: ClassVar[bool] = True
    programs: ClassVar[Mapping[str, str]] = {
        "java": "openjdk-21-jre-headless",
        "latte": "crate:latte-cli",
    }
    #: latte writes a log of its own beside what it prints.
    environment: ClassVar[Mapping[str, str]] = {"LATTE_LOG_DIR": "/tmp"}
    details: ClassVar[tuple[Detail, ...]] = (SECONDS, *REQUESTS, *EXTREMES_AND_MEAN)
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cassandra": {},
        "cassandra-loaded": {"concurrency": 64},
    }

    tool: Literal["cassandra"] = "cassandra"
    memory_mib: Annotated[int, Field(ge=_LEAST_MIB, le=1_048_576)] = 2048
    """Memory that each member reserves and may use, in MiB. Half of it is Java's heap."""
    storage: Annotated[StorageField, Field(validate_default=True)] = "node"
    """Where members keep their data. `memory`: in memory, which leaves half of `memory_mib` for
    Cassandra. `node`: on the node's disk. An object: a volume for each member."""
    replicas: Annotated[int, Field(ge=1, le=9, validate_default=True)] = 3
    """On how many members each row is (`replication_factor`)."""
    consistency: Consistency = "QUORUM"
    """How many replicas have to answer before a request is answered: `ONE`, `QUORUM`, `ALL`."""
    rows_per_member: Annotated[int, Field(ge=100, le=1_000_000_000)] = 10_000
    """The table has so many rows for each member, so a member keeps `replicas` times as many."""
    row_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Size of the value of a row."""
    reads: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the requests that read a row; the others write one."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long each load pod sends requests in a trial, in seconds (`-d`), after a second that does
    not count."""
    load_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of threads of each load pod (`--threads`)."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Number of requests under way at the same time for each member, from all load pods together.
    Each thread has an equal part of them, and at least one (`-p`)."""
    reload: bool = False
    """Whether the table is emptied and loaded again after each trial."""

    @field_validator("storage")
    @classmethod
    def _with_memory_besides_data(
        cls, value: Literal["memory", "node"] | Volume, info: ValidationInfo
    ) -> Literal["memory", "node"] | Volume:
        memory = info.data.get("memory_mib")
        if value == "memory" and memory is not None and memory < 2 * _LEAST_MIB:
            raise refusal(
                f"leaves {memory // 2} MiB for Cassandra, which needs {_LEAST_MIB}",
                f"write a memory_mib of {2 * _LEAST_MIB} or more, or another storage",
            )
        return value

    @field_validator("replicas")
    @classmethod
    def _on_members_of_their_own(cls, value: int, info: ValidationInfo) -> int:
        members = info.data.get("members")
        if members is not None and value > members:
            raise refusal(f"has {value} for {members} members", "lower it, or raise members")
        return value

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The median and percentiles of the requests' times, and their rate."""
        return (*super().metrics, operations("requests per second and member", 1e-6))

    # -- the members

    def member_argv(self, index: int, names: Sequence[str]) -> list[str]:
        """The command line of a member; all its options are in a file."""
        return ["java", f"@{FILES}/java.options"]

    def files(self, index: int, names: Sequence[str]) -> Mapping[str, str]:
        """Java's options, Cassandra's configuration as JSON, which is YAML, and the log's."""
        return {
            "java.options": self._java_options(is_seed=index < _SEEDS),
            "cassandra.yaml": json.dumps(self._configuration(index, names), indent=1),
            "logback.xml": _LOGBACK,
        }

    @property
    def _own_mib(self) -> int:
        """The memory of a member besides data in memory."""
        return self.memory_mib // 2 if self.storage == "memory" else self.memory_mib

    def _java_options(self, *, is_seed: bool) -> str:
        heap = self._own_mib // 2
        # A seed that hears of no other one in this time goes on alone, and they meet later. Any
        # other member would give up.
        patience_seconds = 2 if is_seed else self.ready_seconds
        options = [
            f"-Xms{heap}m",
            f"-Xmx{heap}m",
            f"-XX:MaxDirectMemorySize={self._own_mib // 4}m",
            *(("-XX:+UseSerialGC",) if heap < 2048 else ()),
            # Otherwise a member without memory would go on without answering.
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            # Names of members that start a moment later have to be asked for again.
            "-Dsun.net.inetaddr.negative.ttl=0",
            # Cassandra installs a security manager, which newer versions of Java have to allow.
            "-Djava.security.manager=allow",
            f"-Dcassandra.config=file:{FILES}/cassandra.yaml",
            f"-Dlogback.configurationFile={FILES}/logback.xml",
            f"-Dcassandra.storagedir={DATA}",
            f"-Dcassandra.logdir={DATA}",
            "-Dcassandra-foreground=yes",
            f"-Dcassandra.ring_delay_ms={patience_seconds * 1000}",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            *_OPENED.splitlines(),
            "-cp",
            f"{FILES}:/opt/cassandra/lib/*",
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        return "\n".join(options) + "\n"

    def _configuration(self, index: int, names: Sequence[str]) -> dict[str, Any]:
        others = [name for at, name in enumerate(names[:_SEEDS]) if at != index]
        # The kubelet writes its own name into a pod's hosts file, so that it resolves at once.
        own = names[index].partition(".")[0]
        seeds = [own, *others] if index < _SEEDS else others
        cache = self._own_mib // 16
        return {
            "cluster_name": "rackrate",
            "num_tokens": 1,
            "initial_token": str(index * _TOKENS // len(names) - _TOKENS // 2),
            # A member of a new ring has no data to fetch.
            "auto_bootstrap": False,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": ",".join(seeds)}],
                }
            ],
            "storage_port": PEERS,
            "native_transport_port": CLIENTS,
            "endpoint_snitch": "SimpleSnitch",
            "data_file_directories": [f"{DATA}/data"],
            **{
                f"{kind}_directory": f"{DATA}/{kind}"
                for kind in ("commitlog", "saved_caches", "hints", "cdc_raw")
            },
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "10000ms",
            "commitlog_segment_size": "16MiB",
            # Written and not mapped: on a full disk a write fails with that reason, and access to
            # memory that is mapped to it with none.
            "commitlog_compression": [{"class_name": "NoopCompressor"}],
            "commitlog_total_space": f"{self._own_mib // 4}MiB",
            "memtable_heap_space": f"{self._own_mib // 8}MiB",
            "file_cache_size": f"{cache}MiB",
            "networking_cache_size": f"{cache}MiB",
            "counter_cache_size": "0MiB",
            "auto_snapshot": False,
            # Otherwise a member without room would go on without answering.
            "disk_failure_policy": "die",
            "commit_failure_policy": "die",
        }

    # -- the load

    @property
    def load_files(self) -> Mapping[str, str]:
        """latte's script."""
        return {"load.rn": _LOAD}

    def load_argv(self, addresses: Sequence[str]) -> list[str]:
        """The command line that empties the table and writes all rows to all their replicas."""
        return ["latte", "load", *self._script, "-q", "--consistency", "ALL", *addresses]

    @property
    def load_seconds(self) -> float:
        """The expected duration by the number of rows."""
        return _CONNECTING + self._rows / _ROWS_PER_SECOND

    def measure_argv(self, addresses: Sequence[str]) -> list[str]:
        """The command line of a load pod, which prints latte's report as JSON too."""
        functions = {"read": self.reads, "write": 1 - self.reads}
        mix = ",".join(f"{name}:{share:.6g}" for name, share in functions.items() if share)
        return [
            *("latte", "run", *self._script, "-q", "--consistency", self.consistency),
            *("--threads", str(self.load_threads), "-p", str(self._requests_of_thread), "-f", mix),
            *("-w", "1s", "-d", f"{self.seconds}s", "--drop-sampling-log"),
            *("-o", "/dev/stdout", *addresses),
        ]

    def clear_argv(self, addresses: Sequence[str]) -> list[str] | None:
        """The command line that loads again, if that is wanted."""
        return self.load_argv(addresses) if self.reload else None

    @property
    def clear_seconds(self) -> float:
        """As long as loading."""
        return self.load_seconds

    @property
    def _rows(self) -> int:
        # Without members it is not used: a checked plan has them.
        return self.rows_per_member * (self.members or 1)

    @property
    def _requests_of_thread(self) -> int:
        threads = self.load_threads * (self.loaders or 1)
        return max(1, math.ceil(self.concurrency * (self.members or 1) / threads))

    @property
    def _script(self) -> list[str]:
        parameters = {
            "rows": self._rows,
            "bytes": self.row_bytes,
            "replicas": self.replicas,
            "number": OWN_NUMBER,
        }
        options = [word for name, value in parameters.items() for word in ("-P", f"{name}={value}")]
        return [f"{FILES}/load.rn", *options]


def parse(text: str, test: Test) -> Measurement:
    """Read what latte printed: a report for people, then the same as JSON.

    A request that fails is no error for latte, and its exit code is 0.

    Raises:
        ParseError: requests failed, or the report is missing, incomplete or of another test.
    """
    if words := complaint("latte", _COMPLAINT, text):
        raise ParseError(words)
    report = _report(text)
    try:
        return _measurement(report, test)
    except ParseError:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ParseError("latte's report has another form than that of latte 0.29") from error
    except ValueError as error:
        raise ParseError(f"latte's report: {str(error)[:SHORT_REASON]}") from error


def _report(text: str) -> dict[str, Any]:
    # A pod's log may have a line of the error output anywhere among those of the output.
    text = _NEWS.sub("", text)
    begins = text.find("\n{\n")
    if begins < 0:
        raise ParseError("latte printed no report")
    try:
        report, _ = json.JSONDecoder().raw_decode(text[begins + 1 : begins + _LONGEST_REPORT])
    except (ValueError, RecursionError) as error:
        raise ParseError("latte's report is incomplete") from error
    if not isinstance(report, dict):
        raise ParseError("latte printed no report")
    return report


def _measurement(report: dict[str, Any], test: Test) -> Measurement:
    conf, result = report["conf"], report["result"]
    if _settings(conf) != _asked(test):
        raise ParseError("latte's output is of another test")
    requests, cycles = _count(result["request_count"]), _count(result["cycle_count"])
    if result["errors"] or result["error_count"] or result["request_retry_count"]:
        raise ParseError(f"requests failed or were repeated: {_why(result['errors'])}")
    if requests < least_values(test.percentiles):
        raise ParseError(
            f"{requests} requests were answered, and its percentiles need "
            f"{least_values(test.percentiles)}: raise seconds, or ask for lower percentiles"
        )
    by_function = result["cycle_latency_by_fn"]
    reads = decoded(by_function["read"]["histogram"], 1.0).total if "read" in by_function else 0
    if (rows := _count(result["row_count"])) != reads:
        raise ParseError(f"{rows} of {reads} reads found a row: the data are incomplete")
    seconds, rate = float(result["elapsed_time_s"]), float(result["req_throughput"]["value"])
    if not test.seconds * 0.9 <= seconds <= test.seconds * 1.5 + 1:
        raise ParseError(f"latte measured for {seconds:.1f} s instead of {test.seconds} s")
    if not math.isclose(rate * seconds, requests, rel_tol=1e-3) or cycles != requests:
        raise ParseError("the rate in latte's report is not that of its requests")
    latency = result["request_latency"]
    printed = {
        float(percent): float(each["value"]) * 1e-3
        for percent, each in zip(report["percentiles"], latency["percentiles"], strict=True)
    }
    times = decoded(latency["histogram"], 1e-9)
    values = _percentiles(times, printed, test)
    if times.total != requests:
        raise ParseError("the histogram in latte's report is not that of its requests")
    least, mean, most = printed[0.0], float(latency["mean"]["value"]) * 1e-3, printed[100.0]
    if not least <= values["latency"] <= most or not least <= mean <= most:
        raise ParseError("the times in latte's report contradict each other")
    return Measurement(
        values={**values, "operations": test.of_member(rate)},
        histograms={"latency": times},
        details={
            "seconds": seconds,
            "requests": requests,
            "requests_per_second": rate,
            **extremes_and_mean(least, mean, most),
        },
        version=f"Cassandra {conf['cass_version']}",
    )


def _why(errors: Sequence[object]) -> str:
    """One of the errors of requests, if possible one of Cassandra's own."""
    reasons = [" ".join(str(each).split())[:SHORT_REASON] for each in errors]
    own = (each for each in reasons if each.startswith("Database returned an error"))
    return next(own, reasons[0] if reasons else "latte gives no reason")


def _percentiles(times: Histogram, printed: Mapping[float, float], test: Test) -> dict[str, float]:
    """The values of the histogram, which are also those that latte printed."""
    shares = {metric: PERCENTILES[name] for metric, name in test.percentile_metrics.items()}
    values = {name: times.at(share) for name, share in {"latency": 0.5, **shares}.items()}
    for name, share in {"latency": 0.5, **shares}.items():
        value = next((at for p, at in printed.items() if math.isclose(p, share * 100)), None)
        if value is not None and not math.isclose(value, values[name], rel_tol=1e-3):
            raise ParseError("the percentiles in latte's report are not those of its histogram")
    return values


def _settings(conf: Mapping[str, Any]) -> dict[str, Any]:
    """What latte was asked for, by its report."""
    parameters = dict(conf["params"])
    return {
        "seconds": conf["run_duration"]["Time"]["secs"],
        "threads": conf["threads"],
        "concurrency": conf["concurrency"],
        "consistency": str(conf["connection"]["consistency"]).upper(),
        "reads": sum(each["weight"] for each in conf["functions"] if each["name"] == "read"),
        **{name: int(parameters[name]) for name in ("rows", "bytes", "replicas")},
    }


def _asked(test: Test) -> dict[str, Any]:
    return {
        "seconds": test.seconds,
        "threads": test.load_threads,
        "concurrency": test._requests_of_thread,
        "consistency": test.consistency,
        "reads": float(f"{test.reads:.6g}"),
        "rows": test._rows,
        "bytes": test.row_bytes,
        "replicas": test.replicas,
    }


def _count(value: object) -> int:
    """A whole number that is not negative.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{str(value)[:50]!r} is no count")
    return value
