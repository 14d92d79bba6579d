"""The AWS APIs of the lab: moto, with real behaviour where moto has none."""
