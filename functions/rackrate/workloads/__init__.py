"""The workloads: services over several nodes of an arm. To add one, add a file to this package.

A workload's module is like a tool's: it has a class `Test`, a `WorkloadTest`, and a function
`parse(text, test) -> Measurement`. `rackrate.registry` finds both.
"""
