"""Repetitions: lost trials are measured again together with their partners."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rackrate.measure.trials import TrialState
from rackrate.plan.items import (
    block_items,
    planned_trials,
)
from rackrate.plan.repetitions import (
    Tried,
    choose_makeup,
    partners,
    repeated_together,
    trials_to_measure,
)
from rackrate.plan.series import in_series
from tests.unit.builders import arm
from tests.unit.plan.schedules import build, names, plans, warm_up

MEASURED = TrialState(status="measured", attempt=1)


FAILED = TrialState(status="failed", attempt=1)


def stored(items):
    return dict.fromkeys(planned_trials(items), MEASURED)


#: A ring of an odd number of nodes has rounds of two sizes.
ODD_RINGS = {
    "arms": [arm("x-0", names("a", 5)), arm("y-0", names("b", 5))],
    "blocks": 4,
    "pairing": "ring",
    "direction": "alternate",
    "load": "together",
    "seed": 0,
}


@given(plans())
@example(ODD_RINGS)
def test_partners_are_one_trial_of_each_arm_of_the_same_test_and_block(plan):
    items = build(**plan)
    pairs = partners(items)
    assert set(pairs) == set(planned_trials(items))
    for key, together in pairs.items():
        assert key in together
        assert all(pairs[each] == together for each in together)
        assert {(each.block, each.test) for each in together} == {(key.block, key.test)}
        assert len({each.arm for each in together}) == len(together)
    sizes = {len(arm.nodes) for arm in plan["arms"]}
    if len(sizes) == 1:
        assert {len(together) for together in pairs.values()} == {len(plan["arms"])}


@given(plans())
def test_partners_on_the_same_nodes_are_the_same_pair(plan):
    nodes = {arm.name: arm.node_names for arm in plan["arms"]}
    for key, together in partners(build(**plan)).items():
        for other in together:
            if nodes[other.arm] == nodes[key.arm]:
                assert (other.client, other.server) == (key.client, key.server)


@given(plans().filter(lambda plan: len({a.node_names for a in plan["arms"]}) == len(plan["arms"])))
def test_partners_on_different_nodes_are_measured_at_the_same_time(plan):
    items = build(**plan)
    pairs = partners(items)
    for item in block_items(items):
        assert all(set(pairs[key]) <= set(item.trials) for key in item.trials)


@given(plans())
def test_trials_of_the_warm_up_have_no_partners(plan):
    assert all(together == (key,) for key, together in partners(warm_up(**plan)).items())


def test_nothing_is_repeated_when_nothing_is_missing():
    assert choose_makeup(build(), Tried(stored(build()))) is None


def test_a_makeup_repeats_the_lost_trial_and_the_other_arms_trial_of_its_time():
    items = build()
    lost = planned_trials(items)[7]
    chosen = choose_makeup(items, Tried(stored(items) | {lost: FAILED}))
    assert ([item.block for item in chosen.items], chosen.attempt) == ([lost.block], 2)
    assert lost in chosen.trials
    assert {(key.block, key.test) for key in chosen.trials} == {(lost.block, lost.test)}
    assert sorted(key.arm for key in chosen.trials) == ["baseline", "treatment"]


def test_arms_on_the_same_nodes_repeat_one_right_after_the_other_before_anything_else():
    arms = [arm(name, names("n", 2)) for name in ("host", "mixed", "pod")]
    items = build(arms=arms)
    first, *_, last = planned_trials(items)
    history = History(items, {first: FAILED, last: FAILED})
    repeated = [key for keys in iter(history.makeup, None) for key in keys]
    assert [key.block for key in repeated] == [1, 1, 1, 6, 6, 6]
    assert {key.arm for key in repeated[:3]} == {"host", "mixed", "pod"}


def test_partners_keep_their_values_when_the_lost_trial_is_lost_again():
    items = build(arms=[arm(name, names("n", 2)) for name in ("host", "pod")])
    lost = planned_trials(items)[0]
    history = History(items, {lost: FAILED})
    assert set(history.makeup(fails={lost})) == set(history.partners[lost])
    assert set(history.makeup(fails={lost})) == set(history.partners[lost])
    assert history.trials[lost] == TrialState(status="failed", attempt=3)
    assert all(history.trials[key] == MEASURED for key in history.partners[lost] if key != lost)


def test_a_makeup_repeats_as_many_items_as_a_series_has():
    items = build()
    lost = [key for key in planned_trials(items) if key.arm == "treatment"]
    chosen = choose_makeup(items, Tried(stored(items) | dict.fromkeys(lost, FAILED)))
    assert chosen.items == in_series(block_items(items))[0]
    assert len(chosen.items) > 1
    assert chosen.trials == planned_trials(chosen.items)


def test_a_makeup_prefers_what_was_tried_least():
    items = build()
    first, second = planned_trials(items)[0], planned_trials(items)[-1]
    trials = stored(items) | {first: TrialState(status="failed", attempt=2)}
    del trials[second]
    assert choose_makeup(items, Tried(trials)).items[0].block == second.block


class History:
    """A run whose trials are stored as `collect` stores them."""

    def __init__(self, items, changes):
        self.items = items
        self.partners = partners(items)
        self.trials = {**stored(items), **changes}
        self.repeats = {}

    def makeup(self, fails=()):
        """Repeat what is to be repeated; answer the trials, or None when there are none."""
        chosen = choose_makeup(self.items, Tried(self.trials, self.repeats))
        if chosen is None:
            return None
        series, attempt, keys = chosen
        for key in keys:
            status = "failed" if key in fails else "measured"
            lost = Tried(self.trials, self.repeats).is_lost(key)
            into = self.trials if lost else self.repeats
            into[key] = TrialState(status=status, attempt=attempt)
            # What is left is the same when the call is repeated in between.
            tried = Tried(self.trials, self.repeats)
            left = [
                each
                for item in series
                for each in trials_to_measure(item, attempt, self.partners, tried)
            ]
            assert left == keys[keys.index(key) + 1 :]
        tried = Tried(self.trials, self.repeats)
        for item in series:
            for key in repeated_together(item, attempt, self.partners, tried):
                self.trials[key] = TrialState(status="measured", attempt=attempt)
        return keys


@given(plans(), st.randoms(use_true_random=False))
def test_whatever_fails_repetitions_lose_no_value_and_end_with_every_trial_measured(plan, chance):
    """An attempt at partners replaces the values of all of them, or of none that had one."""
    items = build(**plan)
    keys = planned_trials(items)
    lost = chance.sample(keys, chance.randint(0, min(len(keys), 6)))
    history = History(items, dict.fromkeys(lost, FAILED))
    if lost and chance.random() < 0.5:
        del history.trials[lost[0]]
    for _ in range(100):
        before = dict(history.trials)
        failing = {key for key in keys if chance.random() < 0.2}
        if history.makeup(failing) is None:
            break
        for key, state in before.items():
            after = history.trials[key]
            assert after.attempt >= state.attempt
            if state.status == "measured":
                assert after.status == "measured"
                if after != state:
                    together = history.partners[key]
                    assert {history.trials[each].attempt for each in together} == {after.attempt}
    assert all(history.trials[key].status == "measured" for key in keys)
    untouched = {key for key in keys if not set(lost) & set(history.partners[key])}
    assert all(history.trials[key] == MEASURED for key in untouched)
