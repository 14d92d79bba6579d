"""IAM and STS: who calls, with which policies, and what signatures prove."""
