"""What cfn-lint loads: it executes each file of this directory by itself, outside any package."""

from __future__ import annotations

import sys
from pathlib import Path

# cfn-lint runs from wherever it is installed, so the checkout is not on the path yet.
_ROOT = str(Path(__file__).resolve().parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from lint.rules import *  # noqa: E402, F403
