"""What a word says of its interval, as a value and as it is printed."""

from __future__ import annotations

from rackrate_text.units import MINUS, NARROW_SPACE, change


def printed(ratio: float) -> float:
    """The change of a ratio as a reader sees it, in percent."""
    figure = change(ratio).removesuffix(" %").replace(NARROW_SPACE, "")
    return float(figure.lstrip("<>").replace(MINUS, "-"))


def assert_agree(word: str, interval: tuple[float, float] | None, threshold: float) -> None:
    """Assert that a word and the interval beside it never contradict each other."""
    if interval is None:
        assert word == "inconclusive"
        return
    least, most = 1 / (1 + threshold), 1 + threshold
    assert_one(word, interval, (least, most))
    assert_one(word, tuple(map(printed, interval)), (printed(least), printed(most)))


def assert_one(word: str, interval: tuple[float, ...], edges: tuple[float, float]) -> None:
    """The same for figures of one kind."""
    (low, high), (least, most) = interval, edges
    beyond = low >= most or high <= least
    within = least <= low and high <= most
    settled_by = {"better": beyond, "worse": beyond, "no meaningful difference": within}
    text = f"{word}: {interval}, threshold {edges}"
    assert settled_by.get(word, not (beyond or within)), text
