"""Formatting of figures and lists for the functions and the command line. Pure.

Both packages carry it: `sam build` packages it with the functions, and pyproject.toml installs it
beside the command. It imports neither.
"""
