"""CloudFormation for the lab: stacks whose resources are made by calling the emulated APIs.

moto's own engine resolves resources lazily, skips what it does not know, and has no rollback;
this one orders, waits, reports and undoes as CloudFormation documents it.
"""
