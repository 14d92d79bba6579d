"""What is measured about rackrate itself; `make bench` and `make bench-verdict` run it."""

from __future__ import annotations

import sys
from pathlib import Path

# The functions are no package that is installed: a deployment carries them as they are.
sys.path.append(str(Path(__file__).resolve().parents[1] / "functions"))
