"""The storage of runs: the table and the bucket."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Unpack

from aws_lambda_powertools import Logger
from botocore.config import Config
from botocore.exceptions import ClientError
from pydantic import AfterValidator, TypeAdapter, ValidationError

from rackrate import aws
from rackrate.document import Document, Json
from rackrate.errors import translated
from rackrate.measure.counters import NAME as COUNTERS
from rackrate.measure.counters import Counters
from rackrate.measure.obstacles import GaveUp
from rackrate.measure.trials import RawValues, Trial, TrialState
from rackrate.plan.arms import Node
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.replacements import Replacement, nodes_at
from rackrate.plan.schedule import (
    Item,
    TrialKey,
    begun_batch,
    items_from_json,
    planned_trials,
    up_to_batch,
)
from rackrate.table import Table, from_item, to_item
from rackrate.verdict.enough import Stopped
from rackrate.verdict.evidence import Evidence
from rackrate.verdict.model import Verdict
from rackrate_text.names import is_id

logger = Logger(child=True)

#: The key of the item with the leases on the nodes. It has an attribute for each arm, so that one
#: conditional write takes several arms together.
_LEASES = {"pk": "lease", "sk": "nodes"}
RunStatus = Literal[
    "running", "succeeded", "degraded", "failed", "aborted", "timed_out", "invalid", "dry_run"
]
#: What can hold a lease.
Holder = Literal["run", "campaign"]
#: What a run's item has from its end, from what led to it, or from a hold on nodes given back.
_OF_AN_END = (
    "finished_at",
    "seconds",
    "error",
    "cause",
    "conclusion",
    "stopped",
    "gave_up",
    "lost_arms",
    "missing_since",
    "refused_items",
    "quota_waits",
    "heals",
    "waiting_since",
    "leased_at",
    "torn_down_at",
)
#: The items of a trial: what counts of it, and the latest repetition of a measured one.
Kind = Literal["trial", "repeat"]

_KEY_FIELDS = ("block", "arm", "test", "client", "server")  # in the order of TrialKey
_STATE_FIELDS = (*_KEY_FIELDS, *TrialState.model_fields)
#: How many trials are written with one request, of at most 100 items and 4 MB, and the errors of
#: DynamoDB after which it has written none of them (Amazon DynamoDB API reference,
#: TransactWriteItems).
_TRIALS_OF_A_REQUEST = 25
_NOT_TOGETHER = ("TransactionCanceledException", "ValidationException")
#: How many objects are read in parallel.
_READERS = 16
_KEYS_OF_ITEMS = ("pk", "sk", "run_id")
_RAW_VALUES: TypeAdapter[dict[str, RawValues]] = TypeAdapter(dict[str, RawValues])
#: The requested lifetime of a link to an object. A link expires earlier when the credentials that
#: signed it do, and those of a function last at most twelve hours (Amazon S3 user guide, "Download
#: and upload objects with presigned URLs").
LINK_SECONDS = 12 * 3600


def now() -> str:
    """The current time in ISO 8601, UTC, to the millisecond."""
    return _iso(datetime.datetime.now(datetime.UTC))


def later(start: str, seconds: float) -> str:
    """The ISO 8601 time so many seconds after another; before it, if they are negative."""
    return _iso(datetime.datetime.fromisoformat(start) + datetime.timedelta(seconds=seconds))


def _iso(time: datetime.datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(start: str, end: str) -> float:
    """Seconds from one ISO 8601 time to another."""
    parse = datetime.datetime.fromisoformat
    return (parse(end) - parse(start)).total_seconds()


def _time(text: str) -> str:
    """Refuse what is no time, has no time zone, or lies where Python cannot calculate."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None or not 1970 <= time.year < 3000:
        raise ValueError("it is no time of a run")
    return text


#: A time in ISO 8601 with its zone.
Time = Annotated[str, AfterValidator(_time)]


class RunRecord(Document):
    """A run's item in the table. A field that is not known yet is null."""

    run_id: str
    status: RunStatus
    started_at: Time
    """ISO 8601, UTC; so are the other times."""
    updated_at: str | None = None
    finished_at: Time | None = None
    seconds: float | None = None
    """How long it took: from the time its servers were ready until its results were written."""
    waited_seconds: float | None = None
    """How long it was from its start until its servers were ready."""
    execution_arn: str = ""
    phase: str = ""
    """What it is doing, in words."""
    stack_arms: tuple[str, ...] = ()
    """The stack's arms whose nodes it uses; empty for a run of an older rackrate."""
    waiting_since: str | None = None
    """When it first found that another run holds its nodes."""
    leased_at: Time | None = None
    """Since when it holds its nodes; null for a run of an older rackrate, too."""
    campaign: str | None = None
    """The campaign whose lease on the nodes it uses."""
    lease_ends_at: str | None = None
    """When that campaign is expected to end."""
    block: int = 0
    blocks: int = 0
    """How many blocks it measures at most."""
    next_look: int = 0
    """The block after which it looks next, or ends."""
    pause_seconds: float = 0.0
    stopped: Stopped | None = None
    """Why it measured no more blocks, if it looked at its verdicts."""
    lost_arms: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    """The arms without a pair that can be measured now, and since when."""
    refused_items: int = 0
    """How many items in a row had all of their pods refused."""
    quota_waits: int = 0
    """How often it waited since the namespace's quota last let one of its pods in."""
    heals: int = 0
    """How often it asked to have its namespace and its rights made again."""
    gave_up: GaveUp | None = None
    """Why it measures no more, if it ends before it has measured what it planned."""
    seed: int | None = None
    lab_scale: float | None = None
    expected_seconds: float = 0.0
    expected_block_seconds: float = 0.0
    trials_planned: int = 0
    trials_measured: int = 0
    trials_failed: int = 0
    warnings: tuple[str, ...] = ()
    conclusion: str = ""
    error: str | None = None
    cause: str | None = None
    complaints_before: tuple[str, ...] = ()
    """What was wrong with the node groups before they were woken."""
    missing_since: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    """Since when places of the plan have had no server, by place."""
    replacements: tuple[Replacement, ...] = ()
    """The nodes that took the places of lost ones."""
    redrives: int = 0
    """How often it went on after its end: the number of the last redrive of its execution."""
    torn_down_at: str | None = None
    """When its clean-up began. A trial that this cut is not measured, and has not failed."""
    continued_at: tuple[str, ...] = ()
    """When it went on after its end."""

    @property
    def is_running(self) -> bool:
        """Whether the run's end has not been recorded yet."""
        return self.status == "running"


class RunProgress(TypedDict, total=False):
    """The attributes of a run's item that change while it runs, as in `RunRecord`."""

    finished_at: str
    seconds: float
    execution_arn: str
    phase: str
    stack_arms: Sequence[str]
    waiting_since: str
    leased_at: str
    campaign: str | None
    lease_ends_at: str
    block: int
    blocks: int
    next_look: int
    pause_seconds: int
    stopped: Json
    lost_arms: Mapping[str, str]
    refused_items: int
    quota_waits: int
    gave_up: Json | None
    seed: int
    lab_scale: float | None
    expected_seconds: float
    expected_block_seconds: float
    trials_planned: int
    trials_measured: int
    trials_failed: int
    warnings: Sequence[str]
    conclusion: str
    error: str
    cause: str
    complaints_before: Sequence[str]
    missing_since: Mapping[str, str]


class Lease(Document):
    """A lease on the nodes of one of the stack's arms."""

    run_id: str
    """The run that holds the nodes, or the campaign that holds them for its runs."""
    kind: Holder | None = None
    """Which of the two it is, as both may have one id; null in a lease of an older rackrate."""
    taken_at: str
    """ISO 8601, UTC; so are the other times."""
    expected_end: Time
    """When the run is expected to end."""
    expires_at: Time
    """When another run may take the nodes if nobody knows what became of this one."""

    def is_of(self, kind: Holder | None, holder: str) -> bool:
        """Whether the run or the campaign holds it. Without a kind, whoever has the id does."""
        return self.run_id == holder and self.kind in (kind, None)


class Replaced(NamedTuple):
    """The outcome of storing a trial.

    Attributes:
        written: whether it was written.
        before: the trial that it replaced; None where there was none.
    """

    written: bool
    before: TrialState | None


class NamedRuns(NamedTuple):
    """The runs that a name stands for.

    Attributes:
        name: the name.
        runs: the run with that id, or the runs of the baseline with that name, without those that
            are gone.
        gone: the ids of the baseline's runs that are gone.
        is_baseline: whether the name is a baseline's.
    """

    name: str
    runs: tuple[RunRecord, ...] = ()
    gone: tuple[str, ...] = ()
    is_baseline: bool = False

    @property
    def baseline(self) -> str | None:
        """The baseline's name, if the name is a baseline's."""
        return self.name if self.is_baseline else None

    @property
    def problem(self) -> str | None:
        """Why the name cannot be used, or None."""
        if self.gone:
            return f"the run {self.gone[0]!r} of the baseline {self.name!r} is gone"
        return None if self.runs else f"there is no run and no baseline {self.name!r}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.gone:
            return "take it out of the baseline, or name runs of this stack"
        return "name a run of this stack, or a baseline set in it"


class Records[R: Document]:
    """The items of a stack's runs, or of its campaigns: what both have.

    Args:
        table: the table's items.
        noun: `run` or `campaign`.
        kind: what an item is read as.
    """

    def __init__(self, table: Table, noun: str, kind: type[R]) -> None:
        self._table, self._noun, self._kind = table, noun, kind

    def keys(self, name: str) -> tuple[str, str]:
        """The keys of an item."""
        return f"{self._noun}#{name}", self._noun

    def read(self, item: Mapping[str, Any]) -> R | None:
        """An item as a record; None, with a warning, if nobody can read it.

        Its id is that of its key, whatever else the item says.
        """
        name = item["pk"].removeprefix(f"{self._noun}#")
        try:
            return _known(self._kind, {**item, f"{self._noun}_id": name})
        except ValidationError as error:
            # One item that nobody can read must not hide all others.
            logger.warning(f"an item is no {self._noun}", pk=item["pk"], error=str(error))
            return None

    def get(self, name: str) -> R | None:
        """The record, or None where only progress was written and no start."""
        found = self._table.get(*self.keys(name))
        return None if found is None or "status" not in found else self.read(found)

    def start(self, name: str, status: str, started_at: str, attributes: Mapping[str, Any]) -> None:
        """Write a start; a repeated call changes only the attributes that it passes."""
        self._table.update(
            *self.keys(name),
            set_={**attributes, **self._listed(name, status), "updated_at": now()},
            set_once={"started_at": started_at, "gsi1sk": started_at},
        )

    def finish(
        self,
        name: str,
        status: str,
        attributes: Mapping[str, Any],
        *,
        started_at: str,
        time: str,
        seconds: float,
        **once: str,
    ) -> float | None:
        """Write an end, and `once` where it has no such attribute.

        Returns the seconds, or None when an end was written before.
        """
        of_end = {"finished_at": time, "updated_at": time, "seconds": seconds}
        written = self._table.update(
            *self.keys(name),
            set_={**attributes, **self._listed(name, status), **of_end},
            set_once={**once, "started_at": started_at, "gsi1sk": started_at},
            condition="attribute_not_exists(#status) OR #status = :running",
            values={":running": "running"},
        )
        return None if written is None else seconds

    def running(self) -> list[R]:
        """Those whose status is `running`."""
        return self.query("#status = :running", {"#status": "status"}, {":running": "running"})

    def query(
        self, chosen: str, names: Mapping[str, str], values: Mapping[str, Any], started: str = ""
    ) -> list[R]:
        """Those that match a filter expression, and started when a condition on the key says."""
        key = f"gsi1pk = :all AND gsi1sk {started}" if started else "gsi1pk = :all"
        found = self._table.query_index(key, chosen, names, {":all": f"{self._noun}s", **values})
        return [record for item in found if (record := self.read(item)) is not None]

    def _listed(self, name: str, status: str) -> Json:
        return {"status": status, f"{self._noun}_id": name, "gsi1pk": f"{self._noun}s"}


class Store:
    """A stack's table and bucket.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, table_name: str, bucket_name: str, session: Any = None) -> None:
        session = session or aws.session()
        self._session = session
        config = Config(retries={"mode": "standard", "max_attempts": 4}, max_pool_connections=32)
        self._table_name = table_name
        self._bucket_name = bucket_name
        # botocore would check each attribute of each item, which takes a fifth of a write's time.
        unchecked = config.merge(Config(parameter_validation=False))
        self._dynamodb = session.client("dynamodb", config=unchecked)
        self._table = Table(self._dynamodb, table_name)
        self._records = Records(self._table, "run", RunRecord)
        self._s3 = session.client("s3", config=config)

    # -- objects

    def key(self, run_id: str, name: str) -> str:
        """The key of one of a run's objects."""
        return f"runs/{run_id}/{name}"

    def put_text(self, run_id: str, name: str, text: str, content_type: str) -> str:
        """Write one of a run's objects and return its key."""
        return self.put_object(self.key(run_id, name), text, content_type)

    def put_object(self, key: str, text: str, content_type: str) -> str:
        """Write an object under any key, and return the key."""
        self._put_body(key, text.encode(), f"{content_type}; charset=utf-8")
        return key

    def put(self, run_id: str, name: str, document: Document) -> str:
        """Write one of a run's objects as JSON and return its key."""
        return self.put_json(self.key(run_id, name), document.to_json())

    def put_items(self, run_id: str, name: str, items: Sequence[Item]) -> str:
        """Write a schedule and return its key."""
        return self.put_json(self.key(run_id, name), [item.to_json() for item in items])

    def put_json(self, key: str, value: Any) -> str:
        """Write JSON under any key, and return the key."""
        return self.put_object(key, json.dumps(value, indent=1), "application/json")

    def put_parquet(self, key: str, body: bytes) -> None:
        """Write one Parquet file of a table under any key."""
        self._put_body(key, body, "application/vnd.apache.parquet")

    def _put_body(self, key: str, body: bytes, content_type: str) -> None:
        with translated():
            self._s3.put_object(
                Bucket=self._bucket_name, Key=key, Body=body, ContentType=content_type
            )

    def get[D: Document](self, run_id: str, name: str, kind: type[D]) -> D:
        """Read one of a run's objects.

        Raises:
            pydantic.ValidationError: the object is not of that kind.
        """
        return kind.from_json(self._body(self.key(run_id, name)))

    def plan(self, run_id: str) -> PlannedRun:
        """The run's plan.json."""
        return self.get(run_id, "plan.json", PlannedRun)

    def items(self, run_id: str, name: str = "schedule.json") -> list[Item]:
        """A schedule of the run."""
        return items_from_json(self._body(self.key(run_id, name)))

    def find[D: Document](self, run_id: str, name: str, kind: type[D]) -> D | None:
        """One of a run's objects, or None where the run has none."""
        text = self.find_text(run_id, name)
        return None if text is None else kind.from_json(text)

    def find_text(self, run_id: str, name: str) -> bytes | None:
        """The text of one of a run's objects, or None where the run has none."""
        return self.find_object(self.key(run_id, name))

    def find_object(self, key: str) -> bytes | None:
        """The text under any key, or None where there is none."""
        try:
            return self._body(key)
        except ClientError as error:
            # S3 answers AccessDenied for a missing key when the caller may not list the bucket.
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "AccessDenied", "403"):
                return None
            raise

    def _body(self, key: str) -> bytes:
        with translated():
            answer = self._s3.get_object(Bucket=self._bucket_name, Key=key)
            body: bytes = answer["Body"].read()
            return body

    def put_raw_values(self, run_id: str, name: str, values: Mapping[str, RawValues]) -> str:
        """Write raw values and series as gzipped JSON by trial id, and return the key.

        Args:
            run_id: the run.
            name: the object's name, such as `samples/0001-1.1.0a1b2c3d.json.gz`.
            values: raw values by trial id.
        """
        key = self.key(run_id, name)
        # Without a timestamp, equal values give equal bytes.
        body = gzip.compress(_RAW_VALUES.dump_json(dict(values)), mtime=0)
        self._put_body(key, body, "application/gzip")
        return key

    def raw_values(self, trials: Iterable[Trial]) -> dict[str, RawValues]:
        """The stored raw values and series of trials, by trial id.

        A trial's `samples_key` names the object that has its values. Another object may have values
        of another attempt at it.
        """
        named: dict[str, list[str]] = defaultdict(list)
        for trial in trials:
            if trial.samples_key is not None:
                named[trial.samples_key].append(trial.key.id)
        found: dict[str, RawValues] = {}
        with ThreadPoolExecutor(_READERS) as pool:
            for ids, body in zip(named.values(), pool.map(self._body, named), strict=True):
                values = _RAW_VALUES.validate_json(gzip.decompress(body))
                found |= {each: values[each] for each in ids if each in values}
        return found

    def link(self, key: str) -> str:
        """A presigned link to one object; the reader needs no credentials.

        This process's credentials sign it. The link expires when they do, or after `LINK_SECONDS`.
        Signing makes no call, and the object need not exist yet.
        """
        url: str = self._signer.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket_name, "Key": key}, ExpiresIn=LINK_SECONDS
        )
        return url

    def link_validity(self, key: str) -> str:
        """A sentence on how long such a link is valid, and what to do afterwards."""
        return (
            f"at most {LINK_SECONDS // 3600} hours, often less: it ends with the credentials of the"
            " function that signed it, and Lambda does not tell when that is. Then: aws s3 cp"
            f" s3://{self._bucket_name}/{key} ."
        )

    @functools.cached_property
    def _signer(self) -> Any:
        # S3 serves objects encrypted with KMS only to requests signed with version 4. A signature
        # is valid for one host, and the global host redirects readers to the Region's host.
        config = Config(
            signature_version="s3v4",
            s3={"us_east_1_regional_endpoint": "regional", "addressing_style": "virtual"},
        )
        return self._session.client("s3", config=config)

    @property
    def table(self) -> Table:
        """The table's items."""
        return self._table

    @property
    def bucket_name(self) -> str:
        """The bucket."""
        return self._bucket_name

    # -- the run itself

    def run(self, run_id: str) -> RunRecord | None:
        """The run's item, or None where only progress was written and no start."""
        return self._records.get(run_id)

    def named_runs(self, name: str) -> NamedRuns:
        """The run with an id, or the runs of the baseline with that name, the newest last."""
        if not is_id(name):
            return NamedRuns(name[:80])  # nor could it be a key of the table
        if (run := self.run(name)) is not None:
            return NamedRuns(name, (run,))
        if (baseline := self._table.get(f"baseline#{name}", "baseline")) is None:
            return NamedRuns(name)
        # A baseline of an earlier version has one run.
        run_ids = baseline["run_ids"] if "run_ids" in baseline else [baseline["run_id"]]
        found = {run_id: self.run(run_id) for run_id in run_ids}
        runs = tuple(run for run in found.values() if run is not None)
        gone = tuple(run_id for run_id, run in found.items() if run is None)
        return NamedRuns(name, runs, gone, is_baseline=True)

    def start_run(
        self, run_id: str, status: RunStatus, started_at: str, **attributes: Unpack[RunProgress]
    ) -> None:
        """Record a planned run; a repeated call changes only the attributes that it passes.

        Args:
            run_id: the run.
            status: `running`, or `dry_run`.
            started_at: ISO 8601; ignored when the run is recorded already.
            attributes: further attributes of the run.
        """
        self._records.start(run_id, status, started_at, attributes)

    def update_run(self, run_id: str, **attributes: Unpack[RunProgress]) -> RunRecord | None:
        """Record progress by overwriting attributes.

        Returns:
            The run's item, or None where only progress was written and no start.
        """
        written = self._update(run_id, set_={**attributes, "updated_at": now()})
        return None if "status" not in written else self._records.read(written)

    def begin(self, run: RunRecord) -> None:
        """Record how long a run waited until its servers were ready, the first time that they are.

        Nodes that wake, another run's lease and servers that start are not what it measures.
        """
        waited = {"waited_seconds": seconds_between(run.started_at, now())}
        self._update(run.run_id, set_={"updated_at": now()}, set_once=waited)

    def begin_teardown(self, run_id: str) -> None:
        """Record that the clean-up of a run began, if the run has an item."""
        if self._table.get(f"run#{run_id}", "run") is not None:
            self._update(run_id, set_={"updated_at": now(), "torn_down_at": now()})

    def count_heal(self, run_id: str) -> int:
        """Count that a run asks to have its access made again. Returns how often it did."""
        return int(self._update(run_id, set_={"updated_at": now()}, add={"heals": 1})["heals"])

    def replace_nodes(
        self, run_id: str, made: Sequence[Replacement], before: Sequence[Replacement]
    ) -> RunRecord | None:
        """Record that nodes took the places of lost ones.

        Args:
            run_id: the run.
            made: the new replacements.
            before: those that the caller knows of.

        Returns:
            The run's item, or None where another call has recorded some since.
        """
        written = self._table.update(
            f"run#{run_id}",
            "run",
            set_={
                "replacements": [each.to_json() for each in (*before, *made)],
                "updated_at": now(),
            },
            condition=(
                "attribute_not_exists(#replacements) OR size(#replacements) = :count"
                if not before
                else "size(#replacements) = :count"
            ),
            values={":count": len(before)},
        )
        return None if written is None else self._records.read(written)

    def nodes_at(self, run_id: str) -> dict[str, Node]:
        """The nodes in the places where a run replaced the plan's nodes, by place."""
        # Exactly the run's item: no other sort key begins so.
        found = self._table.query(f"run#{run_id}", "run", ("sk", "replacements"))
        return nodes_at(
            Replacement.model_validate(each, strict=False)
            for item in found
            for each in item.get("replacements", ())
        )

    def count_trials(self, run_id: str, *, measured: int, failed: int) -> None:
        """Add to the run's counts of trials.

        `failed` is negative when more failed trials were repaired than failed anew.
        """
        added = {"trials_measured": measured, "trials_failed": failed}
        self._update(run_id, set_={"updated_at": now()}, add=added)

    def finish_run(
        self, run_id: str, status: RunStatus, **attributes: Unpack[RunProgress]
    ) -> float | None:
        """Record how a run ended, unless its end is recorded already.

        A run with an invalid plan was never recorded; this call records it.

        Returns:
            The seconds that the run took, or None when its end was recorded before.
        """
        time = now()
        found = self.run(run_id)
        started_at = time if found is None else found.started_at
        seconds = None if found is None else found.seconds
        if seconds is None:
            waited = 0.0 if found is None else found.waited_seconds or 0.0
            seconds = max(0.0, seconds_between(started_at, time) - waited)
        return self._records.finish(
            run_id, status, attributes, started_at=started_at, time=time, seconds=seconds
        )

    def continue_run(self, run_id: str, redrives: int) -> bool:
        """Record that a run goes on whose end is recorded, because its execution was redriven.

        Args:
            run_id: the run.
            redrives: how often its execution was redriven.

        Returns:
            False when there is no such run, or when this redrive is recorded already.
        """
        time = now()
        written = self._table.update(
            f"run#{run_id}",
            "run",
            set_={
                "status": "running",
                "phase": "going on after its end",
                "redrives": redrives,
                "updated_at": time,
            },
            append={"continued_at": [time]},
            remove=_OF_AN_END,
            condition=(
                "attribute_exists(#status)"
                " AND (attribute_not_exists(#redrives) OR #redrives < :redrives)"
            ),
        )
        return written is not None

    def forget_trials(self, run_id: str, *, apart_from: Iterable[TrialKey]) -> None:
        """Delete what was tried of a run's trials, so that they are measured anew.

        The raw outputs stay in the bucket.

        Args:
            run_id: the run.
            apart_from: the trials that stay.
        """
        stay = {_sort_key("trial", key) for key in apart_from}
        pk = f"run#{run_id}"
        tried = [
            *self._table.query(pk, "trial#", ("sk",)),
            *self._table.query(pk, "repeat#", ("sk",)),
        ]
        with ThreadPoolExecutor(_READERS) as pool:
            gone = (item["sk"] for item in tried if item["sk"] not in stay)
            list(pool.map(lambda sk: self._table.delete(pk, sk), gone))

    def forget_measurements(self, run_id: str) -> None:
        """Delete what was tried of a run, and on which nodes, so that it is planned anew."""
        self.forget_trials(run_id, apart_from=())
        # A new plan names places after other nodes.
        self._table.update(
            f"run#{run_id}", "run", set_={"updated_at": now()}, remove=("replacements",)
        )

    def running_runs(self) -> list[RunRecord]:
        """Every run whose status in the table is `running`."""
        return self._records.running()

    def runs_between(self, start: str, end: str, *, longest_seconds: float) -> list[RunRecord]:
        """Every run that went on at some time in an interval.

        Args:
            start: ISO 8601.
            end: the same.
            longest_seconds: how long a run may take. A run that started earlier than that before
                the interval is not found.
        """
        return self._records.query(
            "attribute_not_exists(finished_at) OR finished_at > :start",
            {},
            {":earliest": later(start, -longest_seconds), ":start": start, ":end": end},
            started="BETWEEN :earliest AND :end",
        )

    def _update(
        self,
        run_id: str,
        *,
        set_: Mapping[str, Any],
        set_once: Mapping[str, Any] | None = None,
        add: Mapping[str, int] | None = None,
    ) -> Json:
        """Write attributes of a run's item. Returns the item as it is then."""
        written = self._table.update(f"run#{run_id}", "run", set_=set_, set_once=set_once, add=add)
        assert written is not None  # there is no condition
        return written

    # -- the leases on the nodes

    def hold_nodes(
        self, arms: Iterable[str], lease: Lease, *, renew: bool = False
    ) -> dict[str, Lease] | None:
        """Take or renew a run's lease on the nodes of several arms: on all of them or on none.

        A lease of another run is in the way until somebody ends it, also after its time. Functions'
        clocks may differ, so one that is ahead must not take the nodes of a run that goes on.

        Args:
            arms: names of the stack's arms.
            lease: the lease.
            renew: whether to write it only if the run still holds the nodes. Without this, a late
                call for a run that has ended would take them again.

        Returns:
            None when the run holds the nodes. Otherwise the leases of other runs on them, by arm.
        """
        wanted = {f"#arm{number}": arm for number, arm in enumerate(arms)}
        free = "{0}.run_id = :run AND ({0}.kind = :kind OR attribute_not_exists({0}.kind))"
        if not renew:
            free += " OR attribute_not_exists({0})"
        held = self._change_leases(
            "SET " + ", ".join(f"{name} = :lease" for name in wanted),
            " AND ".join(f"({free.format(name)})" for name in wanted),
            wanted,
            to_item({":lease": lease.to_json(), ":run": lease.run_id, ":kind": lease.kind}),
        )
        if held is None:
            return None
        others = {a: each for a, each in held.items() if not each.is_of(lease.kind, lease.run_id)}
        return {arm: others[arm] for arm in wanted.values() if arm in others}

    def leases(self) -> dict[str, Lease]:
        """The leases that have not expired, by arm."""
        time = now()
        found = _leases(self._table.get(**_LEASES) or {})
        return {arm: lease for arm, lease in found.items() if lease.expires_at >= time}

    def give_back_nodes(self, kind: Holder, holder: str) -> None:
        """End the lease of a run or of a campaign on all nodes that it holds, if it holds any."""
        leases = _leases(self._table.get(**_LEASES) or {})
        held = {
            f"#arm{number}": arm
            for number, (arm, lease) in enumerate(leases.items())
            if lease.is_of(kind, holder)
        }
        if not held:
            return
        # If another run has taken one of them since, the lease has expired on all of them.
        unchanged = " AND ".join(f"{name}.run_id = :run" for name in held)
        self._change_leases("REMOVE " + ", ".join(held), unchanged, held, to_item({":run": holder}))

    def end_leases(self, leases: Mapping[str, Lease]) -> None:
        """End the leases of runs that are gone, by arm, unless one was renewed or taken since."""
        names = {f"#arm{number}": arm for number, arm in enumerate(leases)}
        values: Json = {}
        unchanged: list[str] = []
        for number, lease in enumerate(leases.values()):
            values |= {f":run{number}": lease.run_id, f":end{number}": lease.expires_at}
            unchanged.append(f"#arm{number}.run_id = :run{number}")
            unchanged.append(f"#arm{number}.expires_at = :end{number}")
        condition = " AND ".join(unchanged)
        self._change_leases("REMOVE " + ", ".join(names), condition, names, to_item(values))

    def _change_leases(
        self, expression: str, condition: str, arms: Mapping[str, str], values: Mapping[str, Any]
    ) -> dict[str, Lease] | None:
        """Change the leases. Returns None, or all leases if the condition does not hold.

        In the latter case, those that nobody can read are deleted: nobody can renew or end them.
        `arms` has the arms by the names that the expressions use, and `values` their values.
        """
        try:
            with translated():
                self._dynamodb.update_item(
                    TableName=self._table_name,
                    Key=to_item(_LEASES),
                    UpdateExpression=expression,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=arms,
                    ExpressionAttributeValues=values,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            # Before the first lease of a stack there is no item.
            before: Any = error.response.get("Item", {})
            leases = _leases(from_item(before))
            for arm in before.keys() - _LEASES.keys() - leases.keys():
                logger.warning("a lease that nobody can read is deleted", arm=arm)
                of_arm = {":before": before[arm]}
                self._change_leases("REMOVE #arm", "#arm = :before", {"#arm": arm}, of_arm)
            return leases
        return None

    # -- trials and verdicts

    def trials(self, run_id: str, block: int | None = None) -> dict[TrialKey, Trial]:
        """The trials of a run or of one block with all their attributes."""
        return _by_key(self._table.query(f"run#{run_id}", _prefix("trial", block)))

    def repeats(self, run_id: str, block: int) -> dict[TrialKey, Trial]:
        """The latest repetitions of a block's measured trials, with all their attributes."""
        return _by_key(self._table.query(f"run#{run_id}", _prefix("repeat", block)))

    def trial_states(self, run_id: str, block: int | None = None) -> dict[TrialKey, TrialState]:
        """The states of the trials of a run or of one block; block 0 is the warm-up."""
        return self._states(run_id, _prefix("trial", block))

    def states_of(self, run_id: str, keys: Sequence[TrialKey]) -> dict[TrialKey, TrialState]:
        """The states of these trials, as far as they are stored.

        A block of a mesh has far more trials than one of its rounds.
        """
        sks = [_sort_key("trial", key) for key in keys]
        return _by_state(self._table.get_many(f"run#{run_id}", sks, _STATE_FIELDS))

    def repeat_states(self, run_id: str, block: int | None = None) -> dict[TrialKey, TrialState]:
        """The states of the latest repetitions of measured trials of a run or of one block."""
        return self._states(run_id, _prefix("repeat", block))

    def _states(self, run_id: str, prefix: str) -> dict[TrialKey, TrialState]:
        return _by_state(self._table.query(f"run#{run_id}", prefix, _STATE_FIELDS))

    def put_trials(
        self, run_id: str, trials: Sequence[Trial], pool: ThreadPoolExecutor
    ) -> list[Replaced]:
        """Write trials as `put_trial` does, many with one request where none of them is there yet.

        Args:
            run_id: the run.
            trials: the trials, each once.
            pool: sends the requests.
        """
        batches = list(itertools.batched(trials, _TRIALS_OF_A_REQUEST, strict=False))
        written = pool.map(functools.partial(self._put_new, run_id), batches)
        replaced: dict[TrialKey, Replaced] = {}
        for batch, all_new in zip(batches, written, strict=True):
            outcomes = (
                itertools.repeat(Replaced(True, None))
                if all_new
                else pool.map(functools.partial(self.put_trial, run_id), batch)
            )
            replaced |= zip((trial.key for trial in batch), outcomes, strict=False)
        return [replaced[trial.key] for trial in trials]

    def _put_new(self, run_id: str, trials: Sequence[Trial]) -> bool:
        """Write all of these trials or none of them, and tell whether they were written."""
        puts = [
            {
                "Put": {
                    "TableName": self._table_name,
                    "Item": to_item(_item(run_id, "trial", trial)),
                    "ConditionExpression": "attribute_not_exists(pk)",
                }
            }
            for trial in trials
        ]
        try:
            with translated():
                self._dynamodb.transact_write_items(TransactItems=puts)
        except ClientError as error:
            # Some are there, the table is busy, or all are too large for one request.
            if error.response["Error"]["Code"] in _NOT_TOGETHER:
                return False
            raise
        return True

    def put_trial(self, run_id: str, trial: Trial) -> Replaced:
        """Write a trial, unless a measured trial or a later attempt is stored already."""
        return self._put(run_id, "trial", trial, "#status <> :measured AND #attempt <= :attempt")

    def replace_trial(self, run_id: str, trial: Trial) -> Replaced:
        """Write a trial in place of what an earlier attempt measured, or of the same attempt."""
        return self._put(run_id, "trial", trial, "#attempt <= :attempt")

    def put_repeat(self, run_id: str, trial: Trial) -> Replaced:
        """Write the repetition of a measured trial, unless it or a later one is stored already.

        The measured trial stays as it is.
        """
        return self._put(run_id, "repeat", trial, "#attempt < :attempt")

    def _put(self, run_id: str, kind: Kind, trial: Trial, condition: str) -> Replaced:
        """Write a trial where there is none yet, or where the stored one meets a condition."""
        compared = {":measured": "measured", ":attempt": trial.attempt}
        used = {name: value for name, value in compared.items() if name in condition}
        try:
            with translated():
                answer = self._dynamodb.put_item(
                    TableName=self._table_name,
                    Item=to_item(_item(run_id, kind, trial)),
                    ConditionExpression=f"attribute_not_exists(pk) OR ({condition})",
                    ExpressionAttributeNames={
                        f"#{name}": name
                        for name in ("status", "attempt")
                        if f"#{name}" in condition
                    },
                    ExpressionAttributeValues=to_item(used),
                    ReturnValues="ALL_OLD",
                )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return Replaced(False, None)
            raise
        before = answer.get("Attributes")
        return Replaced(True, None if before is None else _trial_state(from_item(before)))

    def evidence(
        self,
        run_id: str,
        *,
        with_raw: bool = True,
        with_counters: bool = True,
    ) -> Evidence:
        """The evidence of a run, from which verdicts are computed.

        Args:
            run_id: the run.
            with_raw: whether to read the raw values too, which no verdict against other runs uses.
            with_counters: whether to read the nodes' counters too, and what their interfaces were.
        """
        trials = self.trials(run_id)
        run, items = self.run(run_id), self.items(run_id)
        # A block that could not be launched was not announced, but has failed trials.
        block = max([0 if run is None else run.block, *(key.block for key in trials)])
        begun = up_to_batch(items, begun_batch(items, block))
        planned = self.plan(run_id)
        counters = self.find(run_id, COUNTERS, Counters) if with_counters else None
        if counters is not None:
            planned = planned.model_copy(update={"arms": counters.describe(planned.arms)})
        return Evidence(
            planned_run=planned,
            planned=tuple(planned_trials(begun)),
            trials=trials,
            raw=self.raw_values(trials.values()) if with_raw else {},
            counters=counters,
        )

    def verdicts(self, run_id: str) -> list[Verdict]:
        """The verdicts of a run."""
        return [
            Verdict.from_json(_without_keys(item))
            for item in self._table.query(f"run#{run_id}", "verdict#")
        ]

    def put_verdict(self, run_id: str, verdict: Verdict) -> None:
        """Write a verdict; a repeated analysis overwrites it."""
        sk = f"verdict#{verdict.test}#{verdict.metric}#{verdict.arm}"
        self._table.put({**verdict.to_json(), "pk": f"run#{run_id}", "sk": sk, "run_id": run_id})


def _prefix(kind: Kind, block: int | None = None) -> str:
    """The beginning of the sort keys of a run's trials, or of one block's."""
    return f"{kind}#" if block is None else f"{kind}#{block:04d}#"


def _sort_key(kind: Kind, key: TrialKey) -> str:
    return _prefix(kind, key.block) + "#".join(dataclasses.astuple(key)[1:])


def _item(run_id: str, kind: Kind, trial: Trial) -> Json:
    keys = {"pk": f"run#{run_id}", "sk": _sort_key(kind, trial.key), "run_id": run_id}
    return {**trial.to_item(), **keys}


def _without_keys(item: Mapping[str, Any]) -> Json:
    return {name: value for name, value in item.items() if name not in _KEYS_OF_ITEMS}


def _by_key(items: Iterable[Json]) -> dict[TrialKey, Trial]:
    # Not strict, because DynamoDB returns lists where the models have tuples.
    trials = (Trial.model_validate(_without_keys(item), strict=False) for item in items)
    return {trial.key: trial for trial in trials}


def _by_state(items: Iterable[Json]) -> dict[TrialKey, TrialState]:
    return {TrialKey(*(item[field] for field in _KEY_FIELDS)): _trial_state(item) for item in items}


def _trial_state(item: Mapping[str, Any]) -> TrialState:
    return _known(TrialState, item)


def _leases(item: Mapping[str, Any]) -> dict[str, Lease]:
    """The leases by arm, without what nobody can read."""
    leases = {}
    for arm, stored in item.items():
        if arm not in _LEASES and isinstance(stored, dict):
            with contextlib.suppress(ValidationError):
                leases[arm] = _known(Lease, stored)
    return leases


def _known[D: Document](kind: type[D], item: Mapping[str, Any]) -> D:
    """Read the fields of an item that a document has."""
    known = {name: item[name] for name in kind.model_fields if name in item}
    return kind.model_validate(known, strict=False)
