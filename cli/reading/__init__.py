"""Read what a person names and what the stack stored."""
