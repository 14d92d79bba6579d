"""How long a quick test waits for what it started."""

from __future__ import annotations

# What has not ended by then hangs. `make test` runs the quick tests in the time that the labs
# leave, so what takes 8 s on an idle machine may take two minutes.
HUNG_SECONDS = 600.0
