"""A module for each command; main.py registers them."""
