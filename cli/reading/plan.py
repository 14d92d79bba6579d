"""Read a plan or a campaign from a file. The stack's state machines check its content."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import Refusal

MAXIMUM_BYTES = 256 * 1024
"""The largest input that Step Functions takes (AWS documentation, Step Functions quotas)."""

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None


@dataclass(frozen=True)
class Input:
    """A file of input: what it is called, the option that names it, and an example."""

    noun: str
    option: str
    example: str


PLAN = Input("plan", "--plan", '{"blocks": 6}')
CAMPAIGN = Input("campaign", "--file", '{"draws": 6}')


def read_plan(path: Path | None, seed: int | None = None, *, dry_run: bool = False) -> str:
    """Read the plan as compact JSON text, ready to be an execution's input.

    A `path` of None is the empty plan, which takes all defaults. `-` is standard input. `seed`
    replaces the plan's own. `dry_run` asks for a dry run even if the plan does not. Raises Refusal
    when the plan is not one JSON object, or is too large for Step Functions.
    """
    plan = {} if path is None else read_object(path, PLAN)
    if seed is not None:
        plan["seed"] = seed
    if dry_run:
        plan["dry_run"] = True
    return as_input(plan, PLAN, path)


def read_object(path: Path, kind: Input) -> dict[str, Json]:
    """Read a file that holds one JSON object; `-` is standard input.

    Raises Refusal when it does not, or when it is too large for Step Functions.
    """
    name = _called(path)
    return _parse(_read(path, name, kind), name, kind)


def as_input(document: Mapping[str, Json], kind: Input, path: Path | None) -> str:
    """The document as compact JSON text. Raises Refusal when Step Functions does not take it."""
    text = json.dumps(document, separators=(",", ":"))
    if len(text) > MAXIMUM_BYTES:
        raise _too_large(str(path), kind)
    return text


def _called(path: Path | None) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _read(path: Path, name: str, kind: Input) -> bytes:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAXIMUM_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAXIMUM_BYTES + 1)
    except FileNotFoundError as error:
        raise Refusal(
            f"There is no {kind.noun} file {name}; name an existing one, or leave {kind.option}"
            f" out for the default {kind.noun}."
        ) from error
    except OSError as error:
        raise Refusal(
            f"The {kind.noun} file {name} cannot be read ({error.strerror}); name a readable JSON"
            " file."
        ) from error
    if len(data) > MAXIMUM_BYTES:
        raise _too_large(name, kind)
    return data


def _parse(data: bytes, name: str, kind: Input) -> dict[str, Json]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refusal(f"{name}, line {line}: this is not UTF-8 text; save it as UTF-8.") from error
    try:
        plan = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Refusal(
            f"{name}, line {error.lineno}, column {error.colno}: this is not JSON"
            f" ({error.msg[:1].lower()}{error.msg[1:]}); correct it there."
        ) from error
    except ValueError as error:
        raise Refusal(f"{name}: {error}.") from error
    except RecursionError as error:
        raise Refusal(f"{name}: the JSON is nested too deeply; a {kind.noun} is flat.") from error
    if not isinstance(plan, dict):
        kind_of = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
            type(plan), "a number"
        )
        raise Refusal(
            f"{name}: a {kind.noun} is a JSON object such as {kind.example}, not {kind_of}."
        )
    return plan


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    # JSON parsers silently use the last of two equal names. In a plan that would hide a mistake.
    document: dict[str, Json] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f'the name "{key}" is used twice in one object; keep one of them')
        document[key] = value
    return document


def _no_constant(word: str) -> Json:
    raise ValueError(f"{word} is not JSON; write a number")


def _too_large(name: str, kind: Input) -> Refusal:
    return Refusal(
        f"The {kind.noun} {name} is larger than {MAXIMUM_BYTES // 1024} KiB, the most that Step"
        " Functions takes as input; shorten it."
    )
