"""Counts and lists in a sentence. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def counted(number: int, thing: str) -> str:
    """A number with its noun, such as `1 trial` or `2 trials`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listed(names: Iterable[object], last: str = "and", *, most: int | None = None) -> str:
    """A list such as `a, b and c`; beyond `most` names it ends with the number of the others.

    Args:
        names: the names to list.
        last: the word before the last name: `and` or `or`.
        most: how many names to list; None for all.
    """
    shown = [str(name) for name in names]
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    *others, end = shown or [""]
    return f"{', '.join(others)} {last} {end}" if others else end


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean tcp-1?)` after the mention of an unknown name; empty if no known is near."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name[:60].lower(), by_lower, n=1)
    return f" (did you mean {by_lower[close[0]]}?)" if close else ""


def span(least: str, most: str) -> str:
    """Two ends in words, such as `2 min 05 s to 4 min 10 s`; one if they read the same."""
    return most if least == most else f"{least} to {most}"


def several_runs(name: str, number: int) -> str:
    """Several runs together, such as `the 4 runs of main`.

    Args:
        name: the name of their baseline, or their number (`4 runs`) if they have none.
        number: how many they are.
    """
    runs = counted(number, "run")
    return f"the {runs}" if name == runs else f"the {runs} of {name}"


def shortened(text: str, most: int) -> str:
    """The text without its middle if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]} … {text[2 - most // 2 :]}"


def host_name(node: str) -> str:
    """A node's name without the domain, which all nodes of a cluster share; an address is whole."""
    return node if node[:1].isdigit() else node.partition(".")[0]


def capitalized(words: str) -> str:
    """The text with its first letter capitalized and the rest unchanged."""
    return f"{words[:1].upper()}{words[1:]}"


def sentence(words: str | None) -> str:
    """The words as a sentence: capitalized, with one period at the end; empty without words."""
    return f"{capitalized(words.rstrip('.'))}." if words else ""


_DECIMAL = re.compile(r"(\d)_(\d)")


def metric_words(metric: str) -> str:
    """A metric in words: `latency_p99` is `latency p99`, and `latency_p99_9` `latency p99.9`."""
    return _DECIMAL.sub(r"\1.\2", metric).replace("_", " ")


def metric_of_test(test: str, metric: str) -> str:
    """A test and its metric in words, such as `tcp-1 throughput`; a name that both have once.

    The metric `latency_p99` of the test `latency` is `latency p99`.
    """
    words = metric_words(metric)
    return words if words == test or words.startswith(f"{test} ") else f"{test} {words}"


def interval_title(tests: int) -> str:
    """What intervals are called that are adjusted for so many tests, or for none."""
    return "95 % CI" if tests < 2 else f"95 % CI, adjusted for {tests} tests"


def names_by_reason(reasons: Iterable[tuple[str, str | None]]) -> dict[str, list[str]]:
    """The names that share a reason, each once; those without a reason are left out."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons:
        if reason and name not in by_reason.setdefault(reason.rstrip("."), []):
            by_reason[reason.rstrip(".")].append(name)
    return by_reason


#: With these a spreadsheet takes a cell for a formula, in some languages also in full width.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def inert(text: str) -> str:
    """A text for a cell of CSV that no spreadsheet takes for a formula; numbers need none.

    Source: OWASP, "CSV Injection". The apostrophe makes it a text.
    """
    return f"'{text}" if text.startswith(_FORMULA) else text
