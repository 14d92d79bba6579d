"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# Speed is measured in benchmarks; a test that a busy machine fails says nothing of the code.
settings.register_profile("rackrate", deadline=None)
settings.load_profile("rackrate")
