"""One thin file for each state of the state machine."""
