"""A trial from the output of its test: drafted from the plan, then measured or failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rackrate import registry
from rackrate.foreign import plain
from rackrate.measure.cluster import Log
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.items import BlockItem, Pair, Phase
from rackrate.plan.planned_run import PlannedRun
from rackrate.tools.base import LOG_BYTES, ParseError, TestBase
from rackrate_contract.arms import Node
from rackrate_contract.trials import TrialKey

_REASON_LENGTH = 500

#: The key of a client pod among the pods of one attempt at an item: arm, client node, server node.
type Client = tuple[str, str, str]


def client_of(named: TrialKey | Pair) -> Client:
    """The client pod of a trial or of a pair."""
    return named.arm, named.client, named.server


class Drafts:
    """Trials with the facts from the plan. They are failed until their output has been read."""

    def __init__(
        self,
        items: Iterable[BlockItem],
        planned: PlannedRun,
        attempt: int,
        replaced: Mapping[str, Node],
    ) -> None:
        self._attempt = attempt
        self._places = {key: (item, pair) for item in items for key, pair in item.pair_of.items()}
        self._placements = {arm.name: arm.placement for arm in planned.arms}
        self._replaced = {place: node.name for place, node in replaced.items()}

    def of(self, key: TrialKey) -> Trial:
        """The draft of a trial, with the facts about its arm and the names of its nodes."""
        (item, pair), test = self._places[key], self.test_of(key)
        return Trial.from_fields(
            key,
            round=item.round,
            attempt=self._attempt,
            status="failed",
            tool=test.tool,
            metric=test.primary.name,
            unit=test.primary.unit,
            placement=self._placements[key.arm],
            client_network=pair.client_network,
            server_network=pair.server_network if pair.endpoint is None else None,
            via=pair.via,
            client_node=self._replaced.get(key.client),
            server_node=self._replaced.get(key.server),
            warm_up=item.warm_up,
        )

    def test_of(self, key: TrialKey) -> TestBase:
        """The test of a trial."""
        return next(test for test in self.item_of(key).tests if test.name == key.test)

    def item_of(self, key: TrialKey) -> BlockItem:
        """The item of a trial."""
        return self._places[key][0]


class ReadTrial(NamedTuple):
    """A trial as it was read, and its raw values."""

    trial: Trial
    raw: RawValues

    def stored_with(self, samples_key: str | None) -> Trial:
        """The trial with the key of its raw values, if it has any."""
        if self.raw.is_empty:
            return self.trial
        return self.trial.model_copy(update={"samples_key": samples_key})

    def failed(self, draft: Trial, reason: str) -> ReadTrial:
        """The trial failed, with what it printed and when it ran."""
        fields = ("raw_key", "started_at", "finished_at")
        seen = {name: getattr(self.trial, name) for name in fields}
        return failed(draft.model_copy(update=seen), reason)


def failed(trial: Trial, reason: str) -> ReadTrial:
    """A trial that failed for this reason."""
    return ReadTrial(
        trial.model_copy(update={"reason": plain(reason, _REASON_LENGTH)}), RawValues()
    )


def read_output(
    draft: Trial, test: TestBase, log: Log | None, *, failure: str | None, phase: Phase
) -> ReadTrial:
    """What a test measured, or why it did not. No output makes this raise an error.

    Loading data measures nothing. It has succeeded if its program has.

    Args:
        draft: the trial as it is before its output is read.
        test: its test.
        log: what the test printed, or None.
        failure: how its program failed, or None.
        phase: of its item.
    """
    if phase == "load" and failure is None and log is not None:
        return ReadTrial(draft.model_copy(update={"status": "measured"}), RawValues())
    text = "" if log is None else log.text
    if log is not None and not log.is_whole:
        most = LOG_BYTES // 1_000_000
        words = f"{test.tool} printed more than {most} MB, of which the first {most} MB are kept"
        return failed(draft, "; ".join(filter(None, (failure, words))))
    try:
        measurement = registry.parse(test, text)
        if failure is None:
            return ReadTrial(draft.measured(test, measurement), RawValues.of(measurement))
        return failed(draft, failure)
    except ParseError as error:
        words = str(error)
    except Exception as error:
        words = f"the output of {test.tool} is no report: {type(error).__name__}: {error}"
    # The tool's own message explains more than an exit code does.
    return failed(draft, "; ".join(filter(None, (failure, words if text else None))) or words)
