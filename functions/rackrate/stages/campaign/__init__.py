"""The states of a campaign."""
