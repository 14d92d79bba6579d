"""The AWS APIs of the lab: moto, with real behavior where moto has none."""
