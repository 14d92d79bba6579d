"""The `rackrate` command: start a benchmark, watch it, print its verdict.

The command uses only the public contract of the deployed stack: the CloudFormation outputs, the
state machine's executions, the table of runs and the bucket of results.
"""
