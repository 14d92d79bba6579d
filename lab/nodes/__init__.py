"""EKS on one machine: a real control plane, and a real kubelet and containerd per node."""
