"""Nodes that are simulated: kwok plays their pods, and recorded outputs are their logs."""
