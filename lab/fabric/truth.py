"""What is true over draws in the lab, so that a campaign's answers can be judged.

The model is the one that places nodes: `lab.fabric.luck` draws racks and hosts, `Limits` are the
caps, and the way between racks takes both uplinks twice in a round trip. Monte Carlo: places are
drawn as often as asked, and figures are taken over the draws. Nothing is measured.

Two figures are the machine's, and no model of the lab has them: what a round trip takes besides
the spine, within a rack and between racks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.fabric.luck import Luck, RackLuck
from lab.fabric.shaping import Limits

PLACEMENTS = ("cluster", "partition", "none")
BASELINE = "none"
METHOD = "Monte Carlo over the model that places nodes"


@dataclass(frozen=True)
class Setting:
    """What is compared: the unscaled caps of the instance, the scale, the nodes of an arm.

    `within_seconds` and `between_seconds` are what a round trip takes besides the spine. They
    depend on the machine and on its load; a run in the lab measures them.
    """

    instance_bits_per_second: float = 10e9
    scale: float = 0.1
    nodes: int = 2
    within_seconds: float = 60e-6
    between_seconds: float = 180e-6


@dataclass(frozen=True)
class Spread:
    """A figure over draws: the geometric mean, and how far draws lie from it.

    `log_deviation` is the standard deviation of the logarithm, so about a relative one. Of the
    draws, 95 % lie from `low` to `high`. `error` is the standard error of the mean, relative.
    """

    mean: float
    log_deviation: float
    low: float
    high: float
    error: float

    @classmethod
    def of(cls, logarithms: Sequence[float]) -> Spread:
        """The spread of figures that are given by their logarithms."""
        deviation = statistics.stdev(logarithms)
        cuts = statistics.quantiles(logarithms, n=40)
        return cls(
            mean=math.exp(statistics.fmean(logarithms)),
            log_deviation=deviation,
            low=math.exp(cuts[0]),
            high=math.exp(cuts[-1]),
            error=deviation / math.sqrt(len(logarithms)),
        )


@dataclass(frozen=True)
class Host:
    """A placed node: the name and luck of its rack, and its own caps."""

    rack: str
    luck: RackLuck
    limits: Limits


def place(luck: Luck, placement: str, draw: int, setting: Setting) -> list[Host]:
    """The nodes of an arm in one draw, placed as the lab places them."""
    whole = Limits.of_instance(setting.instance_bits_per_second, setting.scale)
    hosts = []
    for number in range(setting.nodes):
        name = f"{placement}/{draw}/{number}"
        rack = name if placement == "none" else f"{placement}/{draw}"
        rack_luck = luck.rack(rack)
        hosts.append(Host(rack, rack_luck, whole.times(rack_luck.share * luck.host(name))))
    return hosts


def one_flow(sender: Host, receiver: Host, placement: str) -> float:
    """The cap of a single flow, bits per second."""
    limits = sender.limits
    own = limits.cluster_flow if placement == "cluster" else limits.flow
    return min(own, receiver.limits.instance)


def many_flows(sender: Host, receiver: Host, placement: str) -> float:
    """The cap of all flows together, bits per second."""
    return min(sender.limits.instance, receiver.limits.instance)


def round_trip(setting: Setting) -> Callable[[Host, Host, str], float]:
    """The round trip of a pair, seconds: the machine's part, and the spine's between racks."""

    def seconds(one: Host, other: Host, placement: str) -> float:
        if one.rack == other.rack:
            return setting.within_seconds
        spine = 2 * (one.luck.uplink_seconds + other.luck.uplink_seconds)
        return setting.between_seconds + spine

    return seconds


def truth(luck: Luck, setting: Setting, draws: int) -> dict[str, Any]:
    """What is true over `draws` draws, as JSON.

    A draw's figure is the geometric mean over all ordered pairs of the arm's nodes. `placements`
    has each placement's figures, `ratios` those of a placement to the baseline, in which every
    node has a rack of its own. A spread group is placed as the baseline is.
    """
    questions = {
        "one_flow": one_flow,
        "many_flows": many_flows,
        "round_trip": round_trip(setting),
    }
    logarithms: dict[str, dict[str, list[float]]] = {
        placement: {question: [] for question in questions} for placement in PLACEMENTS
    }
    for draw in range(draws):
        for placement in PLACEMENTS:
            hosts = place(luck, placement, draw, setting)
            pairs = [(a, b) for a in hosts for b in hosts if a is not b]
            for question, figure in questions.items():
                mean = statistics.fmean(math.log(figure(a, b, placement)) for a, b in pairs)
                logarithms[placement][question].append(mean)
    return {
        "method": METHOD,
        "seed": luck.seed,
        "draws": draws,
        "setting": asdict(setting),
        "placements": {
            placement: {name: asdict(Spread.of(values)) for name, values in figures.items()}
            for placement, figures in logarithms.items()
        },
        "ratios": {
            placement: {
                name: asdict(Spread.of(_less(values, logarithms[BASELINE][name])))
                for name, values in figures.items()
            }
            for placement, figures in logarithms.items()
            if placement != BASELINE
        },
    }


def _less(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]
