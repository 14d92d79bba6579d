"""The repetition of lost trials with their partners, so that the arms stay paired in time. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rackrate.plan.items import BlockItem, Item, MakeupItem, block_items
from rackrate.plan.series import in_series
from rackrate_contract.trials import TrialKey


class Attempted(Protocol):
    """The attributes of a stored trial that the schedule needs."""

    @property
    def status(self) -> str:
        """`measured` or `failed`."""

    @property
    def attempt(self) -> int:
        """1, or more for a repetition."""


def missing_trials(item: BlockItem, stored: Mapping[TrialKey, Attempted]) -> list[TrialKey]:
    """The trials of an item that were not measured."""
    return [key for key in item.trials if not _is_measured(stored.get(key))]


def _is_measured(trial: Attempted | None) -> bool:
    return trial is not None and trial.status == "measured"


@dataclass(frozen=True)
class Tried:
    """What was tried of a run's trials so far.

    Attributes:
        trials: the stored trials, which count.
        repeats: the latest repetition of each measured trial that was repeated as a partner.
    """

    trials: Mapping[TrialKey, Attempted]
    repeats: Mapping[TrialKey, Attempted] = field(default_factory=dict)

    def _attempted(self, key: TrialKey) -> list[Attempted]:
        return [trials[key] for trials in (self.trials, self.repeats) if key in trials]

    def attempts(self, key: TrialKey) -> int:
        """How often a trial was tried; 0 if never."""
        return max((trial.attempt for trial in self._attempted(key)), default=0)

    def is_lost(self, key: TrialKey) -> bool:
        """Whether no attempt measured the trial."""
        return not _is_measured(self.trials.get(key))

    def is_measured_in(self, key: TrialKey, attempt: int) -> bool:
        """Whether one attempt measured the trial."""
        return any(
            trial.attempt == attempt and _is_measured(trial) for trial in self._attempted(key)
        )


#: The trials that keep the arms paired in time: one of each arm.
Partners = tuple[TrialKey, ...]


def partners(items: Iterable[Item]) -> dict[TrialKey, Partners]:
    """The partners of each trial, itself included.

    Partners are trials of the same test in the same block, in the same round of their arms and at
    the same position in it. Arms on different nodes measure them at the same time, arms on the same
    nodes one after the other on the same pair. A trial has no partner of an arm with fewer rounds
    or pairs, and a trial of the warm-up has none, because no verdict compares it.

    Args:
        items: all items of the blocks in question.
    """
    rounds: Counter[tuple[int, str, str]] = Counter()
    together: dict[tuple[int, str, int, int] | TrialKey, list[TrialKey]] = defaultdict(list)
    for item in block_items(items):
        positions: Counter[str] = Counter()
        for pair in item.pairs:
            position = positions[pair.arm]
            positions[pair.arm] += 1
            for test in item.tests:
                place = rounds[item.block, pair.arm, test.name], position
                key = TrialKey(item.block, pair.arm, test.name, pair.client, pair.server)
                together[key if item.warm_up else (item.block, test.name, *place)].append(key)
        rounds.update((item.block, arm, t.name) for arm in positions for t in item.tests)
    return {key: tuple(keys) for keys in together.values() for key in keys}


def paired_trials(items: Iterable[Item], stored: Mapping[TrialKey, Attempted]) -> set[TrialKey]:
    """The measured trials of blocks whose partners are all measured.

    A run that is continued keeps these. It repeats the others with their partners, so that no
    pair has the time between in it.
    """
    return {
        key
        for key, together in partners(items).items()
        if all(_is_measured(stored.get(each)) for each in together)
    }


class Repetition(NamedTuple):
    """What is measured now: a series, or what a make-up item repeats.

    Attributes:
        items: the ordinary items, in series.
        attempt: the number of the attempt; 2 or more for a repetition.
        trials: the trials of the items to measure.
    """

    items: Sequence[BlockItem]
    attempt: int
    trials: list[TrialKey]


def choose_makeup(items: Iterable[Item], tried: Tried) -> Repetition | None:
    """Choose what to repeat next; None when no trial is lost.

    A lost trial is repeated with its partners, so that the arms stay paired in time. Partners that
    take turns on the same nodes are in other items, so they come next, before any other lost trial,
    unless the attempt has failed already. Otherwise the items whose lost trials were tried least
    come first, then the earliest, as many as one series has.
    """
    blocks = block_items(items)
    # Partners are in one block. Most blocks need no look, which saves time in large plans.
    eventful = {item.block for item in blocks if missing_trials(item, tried.trials)}
    for trials in (tried.trials, tried.repeats):
        eventful |= {key.block for key, trial in trials.items() if trial.attempt > 1}
    blocks = [item for item in blocks if item.block in eventful]
    partners_of = partners(blocks)
    if (begun := _begun(blocks, partners_of, tried)) is not None:
        return begun
    affected = []
    for position, item in enumerate(blocks):
        together = {
            each
            for key in item.trials
            if any(map(tried.is_lost, partners_of[key]))
            for each in partners_of[key]
        }
        if together:
            tries = max(map(tried.attempts, filter(tried.is_lost, together)))
            attempt = 1 + max(1, *map(tried.attempts, together))
            affected.append((tries, position, attempt))
    if not affected:
        return None
    attempt = min(affected)[2]
    alike = [blocks[position] for _, position, its in sorted(affected) if its == attempt]
    return _repetition(alike, attempt, partners_of, tried)


def losses_beyond_repair(items: Iterable[Item], at: Item, tried: Tried) -> int:
    """How many lost trials no make-up item can repeat any more, at least.

    A make-up item repeats the lost trials of one series.

    Args:
        items: all items of the run's blocks.
        at: the item that the run has reached; if it is a make-up item, it can still repeat some.
        tried: what was tried.
    """
    items = list(items)
    of_item = {
        item: number
        for item in block_items(items)
        if (number := sum(tried.attempts(k) > 0 and tried.is_lost(k) for k in item.trials))
    }
    lost = [sum(of_item[item] for item in series) for series in in_series(of_item)]
    makeups = [item for item in items if isinstance(item, MakeupItem)]
    left = [
        item
        for item in makeups
        if item.batch > at.batch
        or (item.batch == at.batch and not (isinstance(at, MakeupItem) and item.number < at.number))
    ]
    return sum(sorted(lost, reverse=True)[len(left) :])


def _begun(
    blocks: Iterable[BlockItem], partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> Repetition | None:
    """The items in which a repetition goes on that measured partners in other items before."""
    begun = {
        item: attempt
        for item in blocks
        for key in item.trials
        if 1 < (attempt := max(map(tried.attempts, partners_of[key]))) != tried.attempts(key)
        and all(
            tried.is_measured_in(each, attempt)
            for each in partners_of[key]
            if tried.attempts(each) == attempt
        )
    }
    if not begun:
        return None
    attempt = next(iter(begun.values()))
    alike = [item for item, its in begun.items() if its == attempt]
    return _repetition(alike, attempt, partners_of, tried)


def _repetition(
    items: Iterable[BlockItem],
    attempt: int,
    partners_of: Mapping[TrialKey, Partners],
    tried: Tried,
) -> Repetition:
    """The repetition of as many of the items as one series has."""
    series = in_series(items)[0]
    trials = [
        key for item in series for key in trials_to_measure(item, attempt, partners_of, tried)
    ]
    return Repetition(series, attempt, trials)


def trials_to_measure(
    item: BlockItem, attempt: int, partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> list[TrialKey]:
    """The trials of an item that an attempt has to measure and has not tried yet.

    These are lost trials and the partners of lost trials. A trial that this attempt has just
    measured is not lost any more, but its partners still have to be measured.
    """
    return [
        key
        for key in item.trials
        if tried.attempts(key) < attempt
        and any(tried.is_lost(each) or tried.attempts(each) == attempt for each in partners_of[key])
    ]


def repeated_together(
    item: BlockItem, attempt: int, partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> list[TrialKey]:
    """The trials whose results of a repetition count: it measured all of their partners.

    Args:
        item: the item that was repeated; only its trials and their partners are looked at.
        attempt: the number of the repetition.
        partners_of: the partners of each trial.
        tried: what was tried, this repetition included.
    """
    complete = {
        partners_of[key]
        for key in item.trials
        if all(tried.is_measured_in(each, attempt) for each in partners_of[key])
    }
    return sorted(key for keys in complete for key in keys)
