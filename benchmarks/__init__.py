"""Benchmarks of rackrate itself, which the targets `bench*` of the Makefile run."""

from __future__ import annotations

import sys
from pathlib import Path

# The functions are not an installed package, because a deployment contains their source directory.
sys.path.append(str(Path(__file__).resolve().parents[1] / "functions"))
