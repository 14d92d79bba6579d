"""What the handlers do: the pure domain joined with the cluster and the store."""
