"""The trials and verdicts of runs."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from rackrate.errors import suppress_codes, translated
from rackrate.executions.objects import Objects
from rackrate.executions.records import read_item
from rackrate.measure.trials import RawValues, Trial, TrialState
from rackrate.table import Table, from_item, to_item
from rackrate_contract.document import Json
from rackrate_contract.trials import TrialKey
from rackrate_contract.verdicts import Verdict

#: The items of a trial: what counts of it, and the latest repetition of a measured one.
ItemKind = Literal["trial", "repeat"]

_KEY_FIELDS = ("block", "arm", "test", "client", "server")  # in the order of TrialKey
_STATE_FIELDS = (*_KEY_FIELDS, *TrialState.model_fields)
#: How many trials are written with one request, of at most 100 items and 4 MB, and the errors of
#: DynamoDB after which it has written none of them (Amazon DynamoDB API reference,
#: TransactWriteItems).
_TRIALS_OF_A_REQUEST = 25
_NOT_TOGETHER = ("TransactionCanceledException", "ValidationException")
#: How many requests run in parallel.
_WORKERS = 16
_RAW_VALUES: TypeAdapter[dict[str, RawValues]] = TypeAdapter(dict[str, RawValues])


class Replaced(NamedTuple):
    """The outcome of storing a trial.

    Attributes:
        written: whether it was written.
        before: the trial that it replaced; None where there was none.
    """

    written: bool
    before: TrialState | None


class Trials:
    """The trials of runs: items of the table, and their raw values in the bucket.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table, self._objects = table, objects

    def of(
        self, run_id: str, block: int | None = None, kind: ItemKind = "trial"
    ) -> dict[TrialKey, Trial]:
        """The trials of a run or of one block, or their latest repetitions, with all attributes."""
        items = self._table.query(f"run#{run_id}", _prefix(kind, block))
        trials = (read_item(Trial, item) for item in items)
        return {trial.key: trial for trial in trials}

    def states(
        self, run_id: str, block: int | None = None, kind: ItemKind = "trial"
    ) -> dict[TrialKey, TrialState]:
        """The states of the same; block 0 is the warm-up."""
        return _by_state(self._table.query(f"run#{run_id}", _prefix(kind, block), _STATE_FIELDS))

    def states_of(self, run_id: str, keys: Sequence[TrialKey]) -> dict[TrialKey, TrialState]:
        """The states of these trials, as far as they are stored.

        A block of a mesh has far more trials than one of its rounds.
        """
        sks = [_sort_key("trial", key) for key in keys]
        return _by_state(self._table.get_many(f"run#{run_id}", sks, _STATE_FIELDS))

    def put_many(
        self, run_id: str, trials: Sequence[Trial], pool: ThreadPoolExecutor
    ) -> list[Replaced]:
        """Write trials as `put` does, many with one request where none of them is there yet.

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
                else pool.map(functools.partial(self.put, run_id), batch)
            )
            replaced |= zip((trial.key for trial in batch), outcomes, strict=False)
        return [replaced[trial.key] for trial in trials]

    def _put_new(self, run_id: str, trials: Sequence[Trial]) -> bool:
        """Write all of these trials or none of them, and return whether they were written."""
        puts = [
            {
                "Put": {
                    "TableName": self._table.name,
                    "Item": to_item(_item(run_id, "trial", trial)),
                    "ConditionExpression": "attribute_not_exists(pk)",
                }
            }
            for trial in trials
        ]
        with suppress_codes(*_NOT_TOGETHER), translated():
            self._table.client.transact_write_items(TransactItems=puts)
            return True
        # Some are there, the table is busy, or all are too large for one request.
        return False

    def put(self, run_id: str, trial: Trial) -> Replaced:
        """Write a trial, unless a measured trial or a later attempt is stored already."""
        return self._put_if(run_id, "trial", trial, "#status <> :measured AND #attempt <= :attempt")

    def replace(self, run_id: str, trial: Trial) -> Replaced:
        """Write a trial in place of what an earlier attempt measured, or of the same attempt."""
        return self._put_if(run_id, "trial", trial, "#attempt <= :attempt")

    def put_repeat(self, run_id: str, trial: Trial) -> Replaced:
        """Write the repetition of a measured trial, unless it or a later one is stored already.

        The measured trial stays as it is.
        """
        return self._put_if(run_id, "repeat", trial, "#attempt < :attempt")

    def _put_if(self, run_id: str, kind: ItemKind, trial: Trial, condition: str) -> Replaced:
        """Write a trial where there is none yet, or where the stored one meets a condition."""
        compared = {":measured": "measured", ":attempt": trial.attempt}
        used = {name: value for name, value in compared.items() if name in condition}
        names = {f"#{name}": name for name in ("status", "attempt") if f"#{name}" in condition}
        with suppress_codes("ConditionalCheckFailedException"), translated():
            response = self._table.client.put_item(
                TableName=self._table.name,
                Item=to_item(_item(run_id, kind, trial)),
                ConditionExpression=f"attribute_not_exists(pk) OR ({condition})",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=to_item(used),
                ReturnValues="ALL_OLD",
            )
            before = response.get("Attributes")
            state = None if before is None else read_item(TrialState, from_item(before))
            return Replaced(True, state)
        return Replaced(False, None)

    def forget(self, run_id: str, *, apart_from: Iterable[TrialKey]) -> None:
        """Delete what was tried of a run's trials, so that they are measured again.

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
        with ThreadPoolExecutor(_WORKERS) as pool:
            stale = (item["sk"] for item in tried if item["sk"] not in stay)
            list(pool.map(lambda sk: self._table.delete(pk, sk), stale))

    def put_raw_values(self, run_id: str, name: str, values: Mapping[str, RawValues]) -> str:
        """Write raw values and series as gzipped JSON by trial id, and return the key.

        Args:
            run_id: the run.
            name: the object's name, such as `samples/0001-1.1.0a1b2c3d.json.gz`.
            values: raw values by trial id.
        """
        # Without a timestamp, equal values give equal bytes.
        body = gzip.compress(_RAW_VALUES.dump_json(dict(values)), mtime=0)
        return self._objects.put_bytes(f"runs/{run_id}/{name}", body, "application/gzip")

    def raw_values(self, trials: Iterable[Trial]) -> dict[str, RawValues]:
        """The stored raw values and series of trials, by trial id.

        A trial's `samples_key` names the object that has its values. Another object may have values
        of another attempt at it.
        """
        named: dict[str, list[str]] = defaultdict(list)
        for trial in trials:
            if trial.samples_key is not None:
                named[trial.samples_key].append(trial.key.id)
        raw_values: dict[str, RawValues] = {}
        with ThreadPoolExecutor(_WORKERS) as pool:
            for ids, body in zip(named.values(), pool.map(self._objects.read, named), strict=True):
                values = _RAW_VALUES.validate_json(gzip.decompress(body))
                raw_values |= {each: values[each] for each in ids if each in values}
        return raw_values

    def verdicts(self, run_id: str) -> list[Verdict]:
        """The verdicts of a run."""
        return [read_item(Verdict, item) for item in self._table.query(f"run#{run_id}", "verdict#")]

    def put_verdict(self, run_id: str, verdict: Verdict) -> None:
        """Write a verdict; a repeated analysis overwrites it."""
        sk = f"verdict#{verdict.test}#{verdict.metric}#{verdict.arm}"
        self._table.put({**verdict.to_json(), "pk": f"run#{run_id}", "sk": sk, "run_id": run_id})


def _prefix(kind: ItemKind, block: int | None = None) -> str:
    """The beginning of the sort keys of a run's trials, or of one block's."""
    return f"{kind}#" if block is None else f"{kind}#{block:04d}#"


def _sort_key(kind: ItemKind, key: TrialKey) -> str:
    return _prefix(kind, key.block) + "#".join(dataclasses.astuple(key)[1:])


def _item(run_id: str, kind: ItemKind, trial: Trial) -> Json:
    keys = {"pk": f"run#{run_id}", "sk": _sort_key(kind, trial.key), "run_id": run_id}
    return {**trial.to_item(), **keys}


def _by_state(items: Iterable[Json]) -> dict[TrialKey, TrialState]:
    return {
        TrialKey(*(item[field] for field in _KEY_FIELDS)): read_item(TrialState, item)
        for item in items
    }
