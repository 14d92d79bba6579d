"""What is measured about rackrate itself; `make bench` runs it."""
