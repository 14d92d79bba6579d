"""Each call of a role against its policies: judged, recorded, audited."""
