"""IAM and STS: identities, policies and signatures."""
