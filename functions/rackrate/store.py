"""What is kept of runs: the table and the bucket."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.config import Config
from botocore.exceptions import ClientError

from rackrate.schedule import TrialKey
from rackrate.throttling import translated

Json = dict[str, Any]

#: The one partition of the index `runs`.
RUNS = "runs"
RUNNING = "running"
TERMINAL = frozenset(
    {"succeeded", "degraded", "failed", "aborted", "timed_out", "invalid", "dry_run"}
)

_KEY_FIELDS = ("block", "arm", "test", "client", "server")  # in the order of TrialKey
#: How far DynamoDB's numbers reach, up to a thousandth ("Naming rules and data types").
_SMALLEST, _LARGEST = 1e-130, 9.99e125
#: No count is so large; a float this large is whole, and no more exact for it.
_NO_COUNT = 2**63
#: Objects that are read at the same time.
_READERS = 16

#: What a trial measured and how it went, without where.
_MEASURED_FIELDS = (
    *("round", "status", "attempt", "reason", "warm_up", "metric", "unit", "value", "values"),
    *("details", "samples", "samples_key", "tool_version", "started_at", "finished_at"),
    *("client_network", "server_network"),
)

_serializer = TypeSerializer()
_deserializer = TypeDeserializer()


def now() -> str:
    """The time in ISO 8601, UTC, to the millisecond."""
    time = datetime.datetime.now(datetime.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(start: str, end: str) -> float:
    """Seconds from one ISO 8601 time to another."""
    parse = datetime.datetime.fromisoformat
    return (parse(end) - parse(start)).total_seconds()


class Store:
    """A stack's table and bucket.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, table_name: str, bucket_name: str, session: Any = None) -> None:
        session = session or boto3.Session()
        self._session = session
        config = Config(retries={"mode": "standard", "max_attempts": 4}, max_pool_connections=32)
        self._table_name = table_name
        self._bucket_name = bucket_name
        self._dynamodb = session.client("dynamodb", config=config)
        self._s3 = session.client("s3", config=config)

    # -- objects

    def key(self, run_id: str, name: str) -> str:
        """The key of one of a run's objects."""
        return f"runs/{run_id}/{name}"

    def put_text(self, run_id: str, name: str, text: str, content_type: str) -> str:
        """Writes one of a run's objects and returns its key."""
        return self.put_object(self.key(run_id, name), text, content_type)

    def put_object(self, key: str, text: str, content_type: str) -> str:
        """Writes an object under any key, which is returned."""
        with translated():
            self._s3.put_object(
                Bucket=self._bucket_name,
                Key=key,
                Body=text.encode(),
                ContentType=f"{content_type}; charset=utf-8",
            )
        return key

    def put_json(self, run_id: str, name: str, value: Any) -> str:
        """Writes one of a run's objects as JSON and returns its key."""
        return self.put_json_object(self.key(run_id, name), value)

    def put_json_object(self, key: str, value: Any) -> str:
        """Writes JSON under any key, which is returned."""
        return self.put_object(key, json.dumps(value, indent=1), "application/json")

    def put_parquet(self, key: str, body: bytes) -> None:
        """Writes a table's part under any key."""
        with translated():
            self._s3.put_object(
                Bucket=self._bucket_name,
                Key=key,
                Body=body,
                ContentType="application/vnd.apache.parquet",
            )

    def get_json(self, run_id: str, name: str) -> Any:
        """Reads one of a run's JSON objects."""
        with translated():
            answer = self._s3.get_object(Bucket=self._bucket_name, Key=self.key(run_id, name))
            return json.load(answer["Body"])

    def find_json(self, run_id: str, name: str) -> Any:
        """One of a run's JSON objects, or None where the run has none."""
        try:
            return self.get_json(run_id, name)
        except ClientError as error:
            # Without the right to list the bucket, S3 does not say that a key is missing.
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "AccessDenied", "403"):
                return None
            raise

    def put_samples(self, run_id: str, name: str, value: Mapping[str, Any]) -> str:
        """Writes raw values and series, gzipped JSON by the trials' ids, and returns the key.

        Args:
            run_id: the run.
            name: the object's, such as `samples/0001-1.1.0a1b2c3d.json.gz`.
            value: `{"<trial id>": {"samples": {...}, "series": [...]}}`.
        """
        key = self.key(run_id, name)
        # Without a time stamp the same values are the same bytes.
        body = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), mtime=0)
        with translated():
            self._s3.put_object(
                Bucket=self._bucket_name, Key=key, Body=body, ContentType="application/gzip"
            )
        return key

    def samples(self, keys: Iterable[str]) -> Json:
        """What `put_samples` wrote under the keys, merged: samples and series by trial id.

        A trial's are in the object its `samples_key` names; objects of a call that was repeated
        hold the same values.
        """
        merged: Json = {}
        with ThreadPoolExecutor(_READERS) as pool:
            for found in pool.map(self._get_samples, sorted(set(keys))):
                merged |= found
        return merged

    def raw_values(self, trials: Iterable[Mapping[str, Any]]) -> Json:
        """What is kept of the raw values and series of stored trials, by trial id."""
        return self.samples(trial["samples_key"] for trial in trials if trial.get("samples_key"))

    def _get_samples(self, key: str) -> Json:
        with translated():
            answer = self._s3.get_object(Bucket=self._bucket_name, Key=key)
            found: Json = json.loads(gzip.decompress(answer["Body"].read()))
            return found

    def link(self, key: str, *, seconds: int) -> str:
        """A link that reads one object without credentials of the reader's own.

        It is signed with this process's credentials, so that it ends when they do, if they end
        before `seconds` are over. No call is made, and the object need not exist yet.
        """
        url: str = self._signer.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket_name, "Key": key}, ExpiresIn=seconds
        )
        return url

    @functools.cached_property
    def _signer(self) -> Any:
        # What a KMS key encrypts is read by version 4 alone, and a signature holds for one host:
        # the global one would send a reader on to the Region's.
        config = Config(
            signature_version="s3v4",
            s3={"us_east_1_regional_endpoint": "regional", "addressing_style": "virtual"},
        )
        return self._session.client("s3", config=config)

    @property
    def bucket_name(self) -> str:
        """The bucket."""
        return self._bucket_name

    # -- the run itself

    def run(self, run_id: str) -> Json | None:
        """The run's item, or None."""
        with translated():
            answer = self._dynamodb.get_item(
                TableName=self._table_name,
                Key=_item({"pk": f"run#{run_id}", "sk": "run"}),
                ConsistentRead=True,
            )
        return _value(answer["Item"]) if "Item" in answer else None

    def baseline(self, name: str) -> Json | None:
        """The named baseline, with the `run_id` it stands for, or None."""
        with translated():
            answer = self._dynamodb.get_item(
                TableName=self._table_name,
                Key=_item({"pk": f"baseline#{name}", "sk": "baseline"}),
                ConsistentRead=True,
            )
        return _value(answer["Item"]) if "Item" in answer else None

    def named_run(self, name: str) -> tuple[Json | None, str | None]:
        """The run that a name stands for: the run of that id, or that of the baseline so named.

        Returns:
            The run's item, or None when there is neither, or the baseline's run is gone; and the
            baseline's name if it was one.
        """
        if (run := self.run(name)) is not None:
            return run, None
        if (baseline := self.baseline(name)) is not None:
            return self.run(str(baseline["run_id"])), name
        return None, None

    def start_run(self, run_id: str, attributes: Mapping[str, Any]) -> None:
        """Records a run that is planned; a repeated call changes only what it says.

        Args:
            run_id: the run.
            attributes: what is known of it, `status` and `started_at` among them.
        """
        time = attributes["started_at"]
        self._update(
            run_id,
            set_={
                **{k: v for k, v in attributes.items() if k != "started_at"},
                "run_id": run_id,
                "updated_at": now(),
                "gsi1pk": RUNS,
            },
            set_once={"started_at": time, "gsi1sk": time},
        )

    def update_run(
        self, run_id: str, attributes: Mapping[str, Any], add: Mapping[str, int] | None = None
    ) -> None:
        """Notes progress; attributes are overwritten, those in `add` are counted up."""
        self._update(run_id, set_={**attributes, "updated_at": now()}, add=add or {})

    def finish_run(self, run_id: str, status: str, attributes: Mapping[str, Any]) -> float | None:
        """Writes how a run ended, unless that is written already.

        A run that was never recorded, because its plan was invalid, is recorded now.

        Returns:
            The seconds the run took, or None when its end was written before.
        """
        time = now()
        found = self.run(run_id) or {}
        started_at = found.get("started_at", time)
        seconds = seconds_between(started_at, time)
        try:
            self._update(
                run_id,
                set_={
                    **attributes,
                    "status": status,
                    "run_id": run_id,
                    "finished_at": time,
                    "updated_at": time,
                    "seconds": seconds,
                    "gsi1pk": RUNS,
                },
                set_once={"started_at": started_at, "gsi1sk": started_at},
                condition="attribute_not_exists(#status) OR #status = :running",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return None
            raise
        return seconds

    def running_runs(self) -> list[Json]:
        """Every run the table believes to be running."""
        runs: list[Json] = []
        request = {
            "TableName": self._table_name,
            "IndexName": "runs",
            "KeyConditionExpression": "gsi1pk = :runs",
            "FilterExpression": "#status = :running",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": _item({":runs": RUNS, ":running": RUNNING}),
        }
        with translated():
            for page in self._dynamodb.get_paginator("query").paginate(**request):
                runs.extend(_value(item) for item in page["Items"])
        return runs

    def _update(
        self,
        run_id: str,
        *,
        set_: Mapping[str, Any],
        set_once: Mapping[str, Any] | None = None,
        add: Mapping[str, int] | None = None,
        condition: str | None = None,
    ) -> None:
        names: dict[str, str] = {}
        values: Json = {}
        for attributes in (set_, set_once or {}, add or {}):
            for name, value in attributes.items():
                names[f"#{name}"] = name
                values[f":{name}"] = value
        sets = [f"#{name} = :{name}" for name in set_]
        sets += [f"#{name} = if_not_exists(#{name}, :{name})" for name in set_once or {}]
        expression = "SET " + ", ".join(sets)
        if add:
            expression += " ADD " + ", ".join(f"#{name} :{name}" for name in add)
        request: Json = {}
        if condition:
            names["#status"] = "status"
            values[":running"] = RUNNING
            request["ConditionExpression"] = condition
        with translated():
            self._dynamodb.update_item(
                TableName=self._table_name,
                Key=_item({"pk": f"run#{run_id}", "sk": "run"}),
                UpdateExpression=expression,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=_item(values),
                **request,
            )

    # -- trials and verdicts

    def trials(self, run_id: str) -> dict[TrialKey, Json]:
        """The trials of a run with all that is known of them."""
        return _by_key(self._query(run_id, "trial#"))

    def trial_values(self, run_id: str) -> dict[TrialKey, Json]:
        """The trials of a run without the facts of their nodes, which are most of an item."""
        return _by_key(self._query(run_id, "trial#", (*_KEY_FIELDS, *_MEASURED_FIELDS)))

    def trial_states(self, run_id: str, block: int | None = None) -> dict[TrialKey, Json]:
        """Only `status`, `attempt` and `reason` of the trials of a run or block.

        Those of the warm-up are in block 0.
        """
        prefix = "trial#" if block is None else f"trial#{block:04d}#"
        fields = ("status", "attempt", "reason")
        return _by_key(self._query(run_id, prefix, (*_KEY_FIELDS, *fields)))

    def put_trial(self, run_id: str, key: TrialKey, trial: Mapping[str, Any]) -> Json | None:
        """Writes a trial, unless it was measured already or a later attempt is stored.

        Args:
            run_id: the run.
            key: the trial's name.
            trial: what became of it, `status` and `attempt` among it.

        Returns:
            The trial as it was stored before, an empty dict if it is new, or None when it was left
            as it is.
        """
        item = {
            **trial,
            "pk": f"run#{run_id}",
            "sk": "#".join(("trial", f"{key.block:04d}", *dataclasses.astuple(key)[1:])),
            "run_id": run_id,
            **dataclasses.asdict(key),
        }
        try:
            with translated():
                answer = self._dynamodb.put_item(
                    TableName=self._table_name,
                    Item=_item(item),
                    ConditionExpression=(
                        "attribute_not_exists(pk)"
                        " OR (#status <> :measured AND #attempt <= :attempt)"
                    ),
                    ExpressionAttributeNames={"#status": "status", "#attempt": "attempt"},
                    ExpressionAttributeValues=_item(
                        {":measured": "measured", ":attempt": trial["attempt"]}
                    ),
                    ReturnValues="ALL_OLD",
                )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return None
            raise
        return _value(answer.get("Attributes", {}))

    def verdicts(self, run_id: str) -> list[Json]:
        """The verdicts of a run."""
        return self._query(run_id, "verdict#")

    def put_verdict(self, run_id: str, verdict: Mapping[str, Any]) -> None:
        """Writes a verdict; analysing again overwrites it."""
        sk = f"verdict#{verdict['test']}#{verdict['metric']}#{verdict['arm']}"
        item = {**verdict, "pk": f"run#{run_id}", "sk": sk, "run_id": run_id}
        with translated():
            self._dynamodb.put_item(TableName=self._table_name, Item=_item(item))

    def _query(self, run_id: str, prefix: str, fields: Sequence[str] = ()) -> list[Json]:
        items: list[Json] = []
        request: Json = {
            "TableName": self._table_name,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
            "ExpressionAttributeValues": _item({":pk": f"run#{run_id}", ":prefix": prefix}),
            "ConsistentRead": True,
        }
        if fields:
            request["ProjectionExpression"] = ", ".join(f"#{field}" for field in fields)
            request["ExpressionAttributeNames"] = {f"#{field}": field for field in fields}
        with translated():
            for page in self._dynamodb.get_paginator("query").paginate(**request):
                items.extend(_value(item) for item in page["Items"])
        return items


def _by_key(items: Sequence[Json]) -> dict[TrialKey, Json]:
    return {TrialKey(*(item[field] for field in _KEY_FIELDS)): item for item in items}


def _item(value: Mapping[str, Any]) -> Json:
    """Python values as DynamoDB's; numbers keep every digit that Python prints."""
    return {name: _serializer.serialize(_decimals(entry)) for name, entry in value.items()}


def _decimals(value: Any) -> Any:
    """Floats as decimals; what DynamoDB's numbers do not reach is kept as far as they reach.

    Only the ends of an interval that says nothing are that far; `analysis.json` has them unchanged.
    """
    if isinstance(value, float):
        magnitude = abs(value)
        if magnitude != 0 and not _SMALLEST <= magnitude <= _LARGEST:
            value = math.copysign(min(max(magnitude, _SMALLEST), _LARGEST), value)
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {name: _decimals(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_decimals(entry) for entry in value]
    return value


def _value(item: Mapping[str, Any]) -> Json:
    """DynamoDB's values as Python's; whole numbers that are counts become int, others float."""
    return {name: _plain(_deserializer.deserialize(entry)) for name, entry in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) < _NO_COUNT
        return int(value) if whole else float(value)
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value
