"""The `rackrate` command: start a benchmark, watch it, read its verdict.

It knows the deployed stack only by its public contract: the CloudFormation outputs, the state
machine's executions, the table of runs and the bucket of results.
"""
