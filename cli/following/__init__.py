"""Follow an execution to its end, and determine the exit code."""
