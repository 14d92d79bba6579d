"""Create, change and delete the stack."""
