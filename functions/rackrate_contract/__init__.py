"""What leaves the stack, as types: results, comparisons, campaigns, estimates, and executions.

The functions write these documents and the command reads them. A plan is JSON here, because its
types belong to the tools. The package imports pydantic and `rackrate_text` only, and runs on the
Pythons of the command.
"""
