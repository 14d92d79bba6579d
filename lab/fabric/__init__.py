"""EC2's network on one machine: racks, a spine between them, and EC2's documented limits."""
