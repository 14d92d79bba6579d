"""Faults that are tried on runs and campaigns in the lab (`make test-faults`)."""
