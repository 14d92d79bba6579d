"""Print how large the functions' packages are, and fail if one leaves too little room.

Run as `python -m scripts.packages`. A package is a directory that `sam build` packages together
with the Python packages of its requirements.txt. Sizes are those of the same Python packages in
this environment, as their RECORD files list them, because pyproject.toml locks both together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What Lambda accepts unpacked: "250 MB" (AWS Lambda developer guide, "Lambda quotas"), of 2**20.
LIMIT_BYTES = 250 * 2**20
#: The largest share of that which each package may take. The rest is room for the next dependency.
LARGEST_SHARE = {"functions": 0.5, "packages/report": 0.9}


def contents(package: Path) -> dict[str, Path]:
    """Where each file of a package is, by its path in the package."""
    places = {
        path.relative_to(package).as_posix(): path
        for path in _walk(package)
        if path.suffix != ".pyc" and path.name != "requirements.txt"
    }
    lock = (package / "requirements.txt").read_text("utf-8")
    for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE):
        for file in files(name) or []:
            # Neither programs, which are outside, nor what was compiled here.
            if file.parts[0] != ".." and file.suffix != ".pyc":
                places[file.as_posix()] = Path(str(file.locate()))
    return places


def size(package: Path) -> int:
    """The unpacked size of a package, in bytes."""
    return sum(path.stat().st_size for path in contents(package).values())


def _walk(directory: Path) -> Iterator[Path]:
    """The files below a directory; the packages' directories are links to the shared code."""
    for parent, _, names in directory.walk(follow_symlinks=True):
        yield from (parent / name for name in names)


def main() -> int:
    """Print the sizes; 1 when a package is too large."""
    too_large = 0
    for name, share in LARGEST_SHARE.items():
        taken = size(ROOT / name)
        print(f"{name:<16} {taken / 1e6:4.0f} of {LIMIT_BYTES / 1e6:.0f} MB unpacked")
        if taken > share * LIMIT_BYTES:
            print(
                f"{name} takes more than {share:.0%} of what Lambda accepts: "
                "remove a dependency of its group in pyproject.toml, or give the functions that "
                "need it a package of their own.",
                file=sys.stderr,
            )
            too_large += 1
    return min(too_large, 1)


if __name__ == "__main__":
    sys.exit(main())
