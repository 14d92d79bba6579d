"""CloudFormation for the lab: it creates stacks' resources by calling the emulated APIs.

moto's own engine resolves resources lazily, skips what it does not know, and cannot roll back.
This engine orders, waits, reports and rolls back as CloudFormation documents it.
"""
