"""The domain of rackrate: what a placement group buys the pods of a cluster.

Pure code (plan, schedule, manifests, tools, statistics, ceilings, report) takes values and returns
values. Only `cluster` and `store` call other systems. `stages` joins the two for the handlers.
"""

from __future__ import annotations

import os

# numpy starts a thread of linear algebra for each processor that it sees. A function has one at
# most, and there the threads only wait for each other. It reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
