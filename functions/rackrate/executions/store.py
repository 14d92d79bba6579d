"""A stack's table and bucket."""

from __future__ import annotations

from typing import Any

from botocore.config import Config

from rackrate import aws
from rackrate.executions.campaigns import Campaigns
from rackrate.executions.leases import Leases
from rackrate.executions.objects import Objects
from rackrate.executions.runs import Runs
from rackrate.executions.trials import Trials
from rackrate.measure.counters import NAME as COUNTERS
from rackrate.measure.counters import Counters
from rackrate.plan.items import begun_batch, planned_trials, up_to_batch
from rackrate.table import Table
from rackrate.verdict.evidence import Evidence
from rackrate_contract.executions import Kind


class Store:
    """A stack's table and bucket.

    Attributes:
        table: the table's items.
        objects: the bucket's objects.
        runs: the runs.
        campaigns: the campaigns.
        trials: the runs' trials.
        leases: the leases on the nodes.
    """

    def __init__(self, table_name: str, bucket_name: str, session: Any = None) -> None:
        session = session or aws.session()
        config = Config(retries={"mode": "standard", "max_attempts": 4}, max_pool_connections=32)
        # botocore would check each attribute of each item, which takes a fifth of a write's time.
        unchecked = config.merge(Config(parameter_validation=False))
        self.table = Table(session.client("dynamodb", config=unchecked), table_name)
        self.objects = Objects(session, session.client("s3", config=config), bucket_name)
        self.runs = Runs(self.table, self.objects)
        self.campaigns = Campaigns(self.table, self.objects)
        self.trials = Trials(self.table, self.objects)
        self.leases = Leases(self.table)

    def of(self, kind: Kind) -> Runs | Campaigns:
        """The executions of a kind."""
        return self.runs if kind == "run" else self.campaigns

    def evidence(
        self,
        run_id: str,
        *,
        with_raw: bool = True,
        with_counters: bool = True,
    ) -> Evidence:
        """The evidence of a run, from which verdicts are computed.

        Args:
            run_id: the run.
            with_raw: whether to read the raw values too, which no verdict against other runs uses.
            with_counters: whether to read the nodes' counters too, and what their interfaces were.
        """
        trials = self.trials.of(run_id)
        run, items = self.runs.find(run_id), self.runs.items(run_id)
        # A block that could not be launched was not announced, but has failed trials.
        block = max([0 if run is None else run.block, *(key.block for key in trials)])
        begun = up_to_batch(items, begun_batch(items, block))
        planned = self.runs.plan(run_id)
        counters = self.runs.find_document(run_id, COUNTERS, Counters) if with_counters else None
        if counters is not None:
            planned = planned.model_copy(update={"arms": counters.describe(planned.arms)})
        return Evidence(
            planned_run=planned,
            planned=tuple(planned_trials(begun)),
            trials=trials,
            raw=self.trials.raw_values(trials.values()) if with_raw else {},
            counters=counters,
        )
