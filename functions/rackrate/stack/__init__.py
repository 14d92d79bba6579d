"""The protocol of custom resources, the preflight checks, and a stack's objects in a cluster."""
