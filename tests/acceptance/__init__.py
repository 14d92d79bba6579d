"""Tests of the acceptance that need no stack."""
