"""The cluster: its API, its nodes, and the measuring pods."""
