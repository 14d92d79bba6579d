"""The domain of rackrate: what a placement group buys the pods of a cluster.

Pure code (plan, schedule, manifests, tools, statistics, ceilings, report) takes values and returns
values. Only `cluster` and `store` call other systems. `stages` joins the two for the handlers.
"""
