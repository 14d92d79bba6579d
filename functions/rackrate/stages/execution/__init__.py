"""What runs and campaigns have in common: their nodes, and the message at their end."""
