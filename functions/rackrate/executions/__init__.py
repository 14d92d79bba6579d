"""Runs and campaigns, as kinds of one execution: their records, objects, leases and trials."""
