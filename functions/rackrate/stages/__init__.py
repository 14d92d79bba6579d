"""The work of the handlers. Stages join the pure domain with the cluster and the store."""
