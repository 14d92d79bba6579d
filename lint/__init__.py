"""Lint rules of our own, for mistakes that cfn-lint does not find."""
