"""What CloudFormation asks of custom resources, and what a stack keeps in a cluster."""
