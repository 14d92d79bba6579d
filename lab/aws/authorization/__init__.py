"""Checks each call of a role against its policies, and records and audits the calls."""
