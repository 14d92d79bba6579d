"""Read a plan from a file. The stack's state machine checks its content."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .errors import Refusal

MAXIMUM_BYTES = 256 * 1024
"""The largest input that Step Functions takes (AWS documentation, Step Functions quotas)."""

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None


def read_plan(path: Path | None, seed: int | None = None, *, dry_run: bool = False) -> str:
    """Read the plan as compact JSON text, ready to be an execution's input.

    A `path` of None is the empty plan, which takes all defaults. `-` is standard input. `seed`
    replaces the plan's own. `dry_run` asks for a dry run even if the plan does not. Raises Refusal
    when the plan is not one JSON object, is too large for Step Functions, or is a comparison.
    """
    plan: dict[str, Json] = {}
    if path is not None:
        name = "standard input" if str(path) == "-" else str(path)
        plan = _parse(_read(path, name), name)
        if "compare" in plan:
            raise Refusal(
                f"{name}: compare asks for a comparison of two runs, not for a run; use `rackrate"
                " compare RUN OTHER`, or compare_with to have a new run compared with an earlier."
            )
    if seed is not None:
        plan["seed"] = seed
    if dry_run:
        plan["dry_run"] = True
    text = json.dumps(plan, separators=(",", ":"))
    if len(text) > MAXIMUM_BYTES:
        raise _too_large(str(path))
    return text


def _read(path: Path, name: str) -> bytes:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAXIMUM_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAXIMUM_BYTES + 1)
    except FileNotFoundError as error:
        raise Refusal(
            f"There is no plan file {name}; name an existing one, or leave --plan out for the"
            " default plan."
        ) from error
    except OSError as error:
        raise Refusal(
            f"The plan file {name} cannot be read ({error.strerror}); name a readable JSON file."
        ) from error
    if len(data) > MAXIMUM_BYTES:
        raise _too_large(name)
    return data


def _parse(data: bytes, name: str) -> dict[str, Json]:
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
        raise Refusal(f"{name}: the JSON is nested too deeply; a plan is flat.") from error
    if not isinstance(plan, dict):
        kind = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
            type(plan), "a number"
        )
        raise Refusal(f'{name}: a plan is a JSON object such as {{"blocks": 6}}, not {kind}.')
    return plan


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    # JSON parsers silently use the last of two equal names. In a plan that would hide a mistake.
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the name "{key}" is used twice in one object; keep one of them')
        found[key] = value
    return found


def _no_constant(word: str) -> Json:
    raise ValueError(f"{word} is not JSON; write a number")


def _too_large(name: str) -> Refusal:
    return Refusal(
        f"The plan {name} is larger than {MAXIMUM_BYTES // 1024} KiB, the most that Step Functions"
        " takes as input; shorten it."
    )
