"""AWS and EKS on one Linux machine: what the stack needs to run without an account."""
