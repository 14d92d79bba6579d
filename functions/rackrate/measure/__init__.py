"""The cluster: its API, its nodes, and the pods that measure."""
