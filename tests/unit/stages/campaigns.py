"""A stack of its own nodes, and a campaign in it, for tests of the stages."""

from __future__ import annotations

import itertools
from dataclasses import replace

from rackrate.measure.node_groups import Sizes
from rackrate.plan.model import Plan
from rackrate.results.build import RunTimes, build_results
from rackrate.times import now
from rackrate.verdict.model import Analysis
from rackrate_contract.results import Results
from tests.unit.builders import node as node_of_run
from tests.unit.builders import plan, planned_run, usual_arm, verdict
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.samples import SETTINGS, node
from tests.unit.stages.runs import Tasks

CAMPAIGN = "camp"
CAMPAIGNS = "arn:aws:states:us-east-1:123456789012:execution:rackrate-campaign:"
CAMPAIGN_ARN = CAMPAIGNS + CAMPAIGN
OWNED = replace(SETTINGS, owns_nodes=True)
GROUPS = ("ng-1", "ng-2")
NO_CAPACITY = {"code": "InsufficientInstanceCapacity", "message": "no c5.large in this zone"}


class NodeGroups(FakeNodeGroups):
    """Node groups whose nodes come and go as soon as their size is set.

    The nodes carry their group's name up to its last hyphen as the label of their arm. A test may
    hold nodes up, report health issues, or say for how many nodes of a group EC2 has `room`.
    """

    def __init__(self, cluster, usual=None, *, at_rest=False):
        usual = usual or dict.fromkeys(GROUPS, 2)
        super().__init__(*usual, subnets=["subnet-1"])
        self.cluster = cluster
        self.held = False
        self.issues = []
        self.room = {}
        self._numbers = itertools.count(1)
        self.sizes = {
            name: Sizes(0, 0, nodes) if at_rest else Sizes(nodes, nodes, nodes)
            for name, nodes in usual.items()
        }
        self.boot()

    def describe_nodegroup(self, **names):
        group = super().describe_nodegroup(**names)["nodegroup"]
        least, desired, most = self.sizes[names["nodegroupName"]]
        sizes = {"minSize": least, "desiredSize": desired, "maxSize": most}
        lacks = desired > self.room.get(names["nodegroupName"], desired)
        issues = [*self.issues, NO_CAPACITY] if lacks else self.issues
        return {"nodegroup": {**group, "scalingConfig": sizes, "health": {"issues": issues}}}

    def update_nodegroup_config(self, *, nodegroupName, scalingConfig, **names):
        super().update_nodegroup_config(
            nodegroupName=nodegroupName, scalingConfig=scalingConfig, **names
        )
        sizes = (scalingConfig[f"{size}Size"] for size in ("min", "desired", "max"))
        self.sizes[nodegroupName] = Sizes(*sizes)
        if not self.held:
            self.boot()

    def boot(self):
        """Let the nodes follow the sizes."""
        for group, sizes in self.sizes.items():
            existing = [each for each in self.cluster.nodes if _group_of(each) == group]
            staying = existing[: sizes.desired]
            coming = min(sizes.desired, self.room.get(group, sizes.desired)) - len(staying)
            new = [
                node(
                    f"{group}-{next(self._numbers)}",
                    group,
                    **{"rackrate.dev/arm": group.rpartition("-")[0]},
                )
                for _ in range(coming)
            ]
            others = [each for each in self.cluster.nodes if _group_of(each) != group]
            self.cluster.nodes = [*others, *staying, *new]

    @property
    def node_names(self):
        """The names of all nodes."""
        return {each["metadata"]["name"] for each in self.cluster.nodes}


def _group_of(each):
    return each["metadata"]["labels"]["eks.amazonaws.com/nodegroup"]


class Executions(Tasks):
    """Step Functions whose executions run until a test says otherwise."""

    def __init__(self, status="RUNNING"):
        super().__init__()
        self.status = status
        self.statuses = {}
        self.stopped = []
        self.refusal = None

    def describe_execution(self, *, executionArn):
        return {"status": self.statuses.get(executionArn, self.status)}

    def stop_execution(self, *, executionArn, error, cause):
        if self.refusal is not None:
            raise self.refusal
        self.stopped.append(executionArn)


def results_of_run(run_id, ratio=1.9, *, scale=None, instance=None, **changes):
    """The results of a run that found a ratio for `tcp-1`, on nodes of its own."""
    names = {"treatment": ("a", "b"), "baseline": ("c", "d")}
    arms = [
        usual_arm(
            name,
            [
                node_of_run(f"{run_id}-{each}", instance_id=f"i-{instance or run_id}-{each}")
                for each in nodes
            ],
            network_scale=scale,
        )
        for name, nodes in names.items()
    ]
    verdict_of_run = verdict(
        ratio=ratio,
        ci95=(ratio * 0.99, ratio * 1.01),
        arm_median=4.9e9 * ratio,
        baseline_median=4.9e9,
    )
    analysis = Analysis(
        method="",
        verdicts=(verdict_of_run,),
        summaries=(),
        marks=(),
        regressions=(),
        regression_differences=None,
        warnings=(),
    )
    planned = planned_run(plan(**changes), arms, run_id=run_id)
    return build_results(
        planned,
        [],
        analysis,
        trials_planned=0,
        stopped=None,
        times=RunTimes(now(), now()),
        lab_scale=scale,
        warnings=(),
    )


def store_run(store, results: Results, status="succeeded", **attributes):
    """Record a run that has ended with these results."""
    run_id = results.run.id
    store.runs.start(run_id, "running", now(), execution_arn=f"arn:{run_id}")
    store.runs.put(run_id, "results.json", results)
    planned = Plan.from_json(results.plan)
    store.runs.put(run_id, "plan.json", planned_run(planned, results.arms, run_id=run_id))
    store.runs.finish(run_id, status, lab_scale=results.run.lab_scale, **attributes)
