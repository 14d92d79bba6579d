"""Lint rules of our own, for the mistakes that cfn-lint lets pass."""
