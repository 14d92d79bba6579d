"""The domain of rackrate: what a placement group buys the pods of a cluster.

Pure code (plan, schedule, manifests, tools, statistics, ceilings, report) takes values and returns
values; `cluster` and `store` alone touch the outside; `stages` joins the two for the handlers.
"""
