"""The workloads: services over several nodes of an arm. To add one, add a file to this package.

A workload's module is like a tool's: it has a class `Test`, a `WorkloadTest`, and a function
`parse(text, test) -> Measurement`. The registry in `rackrate.tools` finds both.
"""

# The registry imports every workload, so it has to begin before any of them does.
import rackrate.tools  # noqa: F401
