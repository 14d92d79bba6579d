"""Print how large functions are with their layers, and fail if one leaves too little room.

Run as `python -m scripts.packages`. All functions have the same code, and one layer of packages or
two. Sizes are those of the same packages in this environment, as their RECORD files list them,
because pyproject.toml locks both together; and of the byte code that `sam build` adds to layers.
"""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Iterable
from importlib.metadata import files
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "functions"
#: The packages of each layer, by its name in templates/layers.yaml.
LOCKS = {
    "DependenciesLayer": ROOT / "packages" / "dependencies.txt",
    "ReportLayer": ROOT / "packages" / "report.txt",
}
#: What Lambda accepts unpacked of a function and its layers: "250 MB" (AWS Lambda developer guide,
#: "Lambda quotas"), of 2**20.
LIMIT_BYTES = 250 * 2**20
#: The largest share of that which functions with these layers may take. The rest is room for the
#: next dependency.
LARGEST_SHARE = {("DependenciesLayer",): 0.5, ("DependenciesLayer", "ReportLayer"): 0.95}


def contents(layers: Iterable[str]) -> dict[str, Path]:
    """Where each file of a function with these layers is, by the path that it is imported from."""
    places = {
        path.relative_to(CODE).as_posix(): path
        for path in CODE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    return places | {name: path for layer in layers for name, path in _packages(layer).items()}


def size(layers: Iterable[str]) -> int:
    """The unpacked size of a function with its layers, in bytes."""
    compiled = (path for layer in layers for path in _packages(layer).values())
    return sum(path.stat().st_size for path in contents(layers).values()) + sum(
        _byte_code(path) for path in compiled if path.suffix == ".py"
    )


def _packages(layer: str) -> dict[str, Path]:
    """The files of a layer's packages: no programs, no tests, nothing that was compiled here."""
    locked = re.findall(r"^([\w.-]+)==", LOCKS[layer].read_text("utf-8"), re.MULTILINE)
    return {
        file.as_posix(): Path(str(file.locate()))
        for name in locked
        for file in files(name) or []
        if not {"..", "tests"} & set(file.parts[:-1]) and file.suffix != ".pyc"
    }


def _byte_code(path: Path) -> int:
    cached = Path(cache_from_source(path))
    if cached.exists():
        return cached.stat().st_size
    return len(marshal.dumps(compile(path.read_bytes(), path, "exec", dont_inherit=True)))


def main() -> int:
    """Print the sizes; 1 when a function and its layers are too large."""
    too_large = 0
    for layers, share in LARGEST_SHARE.items():
        named, taken = " and ".join(layers), size(layers)
        print(
            f"functions with {named:<33} {taken / 1e6:4.0f} of {LIMIT_BYTES / 1e6:.0f} MB unpacked"
        )
        if taken > share * LIMIT_BYTES:
            print(
                f"{named} takes more than {share:.0%} of what Lambda accepts:"
                " remove a dependency of its group in pyproject.toml.",
                file=sys.stderr,
            )
            too_large += 1
    return min(too_large, 1)


if __name__ == "__main__":
    sys.exit(main())
