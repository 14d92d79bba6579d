"""The headline: the results of all comparisons in one short sentence, with their sizes. Pure.

Runs, comparisons, campaigns and sweeps share it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rackrate_contract.arms import NO_GROUP, in_arm
from rackrate_contract.verdicts import Judged
from rackrate_text.grouping import grouped_by
from rackrate_text.words import capitalized, counted, listed, metric_words, span

#: A headline with more words, besides when it holds, counts the comparisons instead.
_MOST_WORDS = 20
#: The ratios that are called twice as much.
_TWICE = (1.95, 2.05)
_WORD = re.compile(r"\w[^\s]*")


def headline(against: str, verdicts: Sequence[Judged]) -> str:
    """The sentence, such as `In the cluster placement group latency is 80 % lower.`

    Args:
        against: when or against what, such as `since run-1`; empty if the baselines' titles say it.
        verdicts: the verdicts. If they are too many to name, they are counted.
    """
    of_places = grouped_by(verdicts, lambda verdict: _place(verdict, against))
    clauses = [f"{place} {_clause(of_place)}" for place, of_place in of_places.items()]
    text = "; ".join(clauses)
    if len(_WORD.findall(text)) > _MOST_WORDS:
        place = f"{next(iter(of_places))}: " if len(of_places) == 1 else ""
        text = f"{place}{counts(verdicts)}"
    return f"{capitalized(', '.join(filter(None, (against, text))))}."


def _place(verdict: Judged, against: str) -> str:
    """Where a verdict holds, such as `in the cluster placement group`."""
    arm, other = verdict.arm_title or verdict.arm, verdict.baseline_title
    # The arm of another run has this after its title.
    is_plain = against or other in ("", NO_GROUP) or other.startswith(f"{arm} (")
    return in_arm(arm) if is_plain else f"{in_arm(arm)} instead of {other}"


def counts(verdicts: Sequence[Judged]) -> str:
    """How many comparisons have each result: `of 9 comparisons 7 are better and 2 worse`."""
    number_of = Counter(v.verdict.replace("no meaningful difference", "alike") for v in verdicts)
    first, *parts = (f"{number} {word}" for word, number in number_of.items())
    verb = "is" if first.startswith("1 ") else "are"
    parts = [first.replace(" ", f" {verb} ", 1), *parts]
    return f"of {counted(len(verdicts), 'comparison')} {listed(parts)}"


def _clause(verdicts: Sequence[Judged]) -> str:
    """The results of one arm, such as `latency is 80 % lower; 8 flows are alike`."""
    named: dict[str, list[Judged]] = {}
    for name_of in (kind, _kind_and_statistic, lambda verdict: verdict.name):
        named = grouped_by(verdicts, name_of)
        if all(len({v.verdict for v in alike}) == 1 for alike in named.values()):
            break
    sized, before = [], ""
    for name, alike in named.items():
        if alike[0].verdict in ("better", "worse"):
            verb = _be([name])
            sized.append(f"{name} {'' if verb == before else f'{verb} '}{_size(alike)}")
            before = verb
    parts = [listed(sized)]
    for word, said in (("no meaningful difference", "alike"), ("inconclusive", "inconclusive")):
        if names := [name for name, alike in named.items() if alike[0].verdict == word]:
            parts.append(f"{listed(names)} {_be(names)} {said}")
    return "; ".join(filter(None, parts))


def kind(verdict: Judged) -> str:
    """What is compared, as far as a headline tells it apart: `latency`, `one flow`."""
    if verdict.unit == "s":
        return "latency"
    return verdict.title if verdict.unit == "bit/s" and verdict.title else verdict.name


def _kind_and_statistic(verdict: Judged) -> str:
    """The same, with a latency's percentile."""
    statistic = metric_words(verdict.metric).partition(" ")[2]
    return f"{statistic or 'median'} latency" if verdict.unit == "s" else kind(verdict)


def _be(names: Sequence[str]) -> str:
    """The verb after names. A number begins those of several flows."""
    return "are" if len(names) > 1 or names[0][0].isdigit() else "is"


def _size(verdicts: Sequence[Judged]) -> str:
    ratios = [v.ratio for v in verdicts if v.ratio is not None]
    return sized(ratios, verdicts[0].unit) if ratios else verdicts[0].verdict


def sized(values: Iterable[float], unit: str) -> str:
    """How large changes in one direction are, such as `74 to 81 % lower`.

    Args:
        values: ratios, all above or all below 1.
        unit: the metric's unit.
    """
    ratios, is_time = sorted(values), unit == "s"
    if not is_time and _TWICE[0] <= ratios[0] and ratios[-1] <= _TWICE[1]:
        return "twice as fast"
    up = ("faster", "higher")[is_time]
    down = ("slower", "lower")[is_time]
    ends = sorted(_percent(ratio) for ratio in (ratios[0], ratios[-1]))
    size = span(*(f"{end:g}" for end in ends))
    return f"{size} % {up if ratios[0] > 1 else down}"


def _percent(ratio: float) -> float:
    """A ratio's change in percent, without decimals from 10 on."""
    size = 100 * abs(ratio - 1)
    return round(size, 1 if size < 10 else None)
