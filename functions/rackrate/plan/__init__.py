"""The plan of a run: its model, its check, the schedule, and what it would take."""
