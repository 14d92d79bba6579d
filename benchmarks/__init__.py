"""Benchmarks of rackrate itself: `make bench`, `make bench-verdict` and `make bench-page`."""

from __future__ import annotations

import sys
from pathlib import Path

# The functions are not an installed package, because a deployment contains their source directory.
sys.path.append(str(Path(__file__).resolve().parents[1] / "functions"))
