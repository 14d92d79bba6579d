"""The states of a run, and of a comparison of runs."""
