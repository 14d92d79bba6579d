"""The captured outputs under tests/unit/data, each with its test and the expected figures.

The file of a capture is `<tool>/<version>/<situation>.<ending>`. It is the output of the real
program of that version. As in a pod's log, it contains the error output too. For each situation,
`captures.yaml` beside it has

- `test`: the options of the test;
- `printed`: figures in the output by metric or detail. Each has its digits as printed and the
  factor to rackrate's unit: `"0.045 * 1e-3"`. A figure that the tool rounded or computed in another
  way begins with `about` and is compared to within 1 %;
- or `refused`: a pattern of the reason for which it is not a measurement.

Files in a tool's folder itself are older captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rackrate import registry
from rackrate.tools.base import LatencyTest, ParseError, TestBase
from rackrate_text.units import quantity

DATA = Path(__file__).parents[1] / "data"
INDEX = "captures.yaml"


@dataclass(frozen=True)
class Printed:
    """A figure as a tool printed it.

    Attributes:
        digits: the digits in the output, with separators of thousands (`1,506.04`) if it has them.
        value: their value in rackrate's unit.
        tolerance: the allowed difference of a parser's figure from it.
    """

    digits: str
    value: float
    tolerance: float

    @classmethod
    def read(cls, text: str) -> Printed:
        """Parse a figure of captures.yaml.

        Raises:
            ValueError: the text has another form.
        """
        match = re.fullmatch(r"(about )?(-?[\d.,]+(?:e[+-]?\d+)?)(?: \* (\S+))?", text)
        if match is None:
            raise ValueError(f"{INDEX} has {text!r}, which is no printed figure")
        about, digits, factor = match.groups()
        times = float(factor or 1)
        value = float(digits.replace(",", "")) * times
        decimals = len(digits.partition("e")[0].partition(".")[2])
        last_digit = 10.0**-decimals * times * 1.001
        return cls(digits, value, max(last_digit, 0.01 * value) if about else last_digit)


@dataclass(frozen=True)
class Capture:
    """A captured output.

    Attributes:
        tool, version, situation: the parts of its path.
        test: the test that printed it.
        printed: the figures in it, by metric or detail. Empty if it is not a measurement.
        reason: a pattern of the reason for which it is not a measurement. None if it is one.
        path: the file.
    """

    tool: str
    version: str
    situation: str
    test: TestBase
    printed: Mapping[str, Printed]
    reason: str | None
    path: Path

    @property
    def text(self) -> str:
        """The captured output."""
        return self.path.read_text(encoding="utf-8")

    @property
    def id(self) -> str:
        """The capture's name in the output of tests."""
        return f"{self.tool}-{self.version}-{self.situation}"


def captures() -> Iterator[Capture]:
    """All captures by tool and version, with older versions first.

    Raises:
        ValueError: a capture or its entry in captures.yaml is missing, or the entry is invalid.
    """
    for index in sorted(DATA.glob(f"*/*/{INDEX}"), key=lambda path: _age(path.parent)):
        yield from _of_version(index)
    if strays := {path.parent for path in DATA.glob("*/*/*")} - {
        index.parent for index in DATA.glob(f"*/*/{INDEX}")
    }:
        raise ValueError(f"captures without {INDEX} beside them: {sorted(map(str, strays))}")


def load_short(tool: str, **fields: Any) -> TestBase:
    """A test as short as those captured. No plan may ask for a p99 of so few values."""
    percentiles = tuple(fields.pop("percentiles", ("p99",)))
    if not issubclass(registry.test_class(tool), LatencyTest):
        return registry.load_test({"name": "captured", "tool": tool, **fields})
    test = registry.load_test({"name": "captured", "tool": tool, **fields, "percentiles": ()})
    return test.model_copy(update={"percentiles": percentiles})


def _of_version(index: Path) -> Iterator[Capture]:
    tool, version = index.parts[-3:-1]
    files = {path.stem: path for path in index.parent.iterdir() if path != index}
    entries = yaml.safe_load(index.read_text(encoding="utf-8"))
    if differing := files.keys() ^ entries.keys():
        raise ValueError(f"{index} and the files beside it differ in {sorted(differing)}")
    for situation, entry in entries.items():
        if ("printed" in entry) == ("refused" in entry) or entry.keys() - {
            *("test", "printed", "refused")
        }:
            raise ValueError(f"{index}: {situation} needs test, and either printed or refused")
        test = load_short(tool, **entry["test"])
        printed = {name: Printed.read(text) for name, text in entry.get("printed", {}).items()}
        path = files[situation]
        yield Capture(tool, version, situation, test, printed, entry.get("refused"), path)


def outcome(capture: Capture) -> str:
    """The parser's result for a capture, as text for the documentation."""
    try:
        measurement = registry.parse(capture.test, capture.text)
    except ParseError as error:
        return f"refused: {str(error)[:160]}"
    primary = capture.test.primary
    return f"**{quantity(measurement.values[primary.name], primary.unit)}**"


def _age(version: Path) -> tuple[str, list[tuple[int, str]]]:
    *words, number = version.name.split("-")
    return version.parent.name, [
        *((0, word) for word in words),
        *((int("".join(filter(str.isdigit, part)) or 0), part) for part in number.split(".")),
    ]
