"""The plugin that cfn-lint loads. It executes each file of this directory outside any package."""

from __future__ import annotations

import sys
from pathlib import Path

# cfn-lint runs from its own installation, so add the checkout to the path.
_ROOT = str(Path(__file__).resolve().parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from lint.rules import ALL  # noqa: E402

globals().update(ALL)
