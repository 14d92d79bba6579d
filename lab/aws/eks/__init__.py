"""Amazon EKS for the lab: the API, clusters, node groups, add-ons and access entries."""
