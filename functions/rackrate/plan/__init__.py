"""The plan of a run: its model, its check, the schedule, the estimate and the guards."""
