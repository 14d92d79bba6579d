"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# Benchmarks measure speed. A deadline here would fail tests on a busy machine.
settings.register_profile("rackrate", deadline=None)
settings.load_profile("rackrate")
