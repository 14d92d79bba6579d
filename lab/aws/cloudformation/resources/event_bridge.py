"""AWS::Events::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


class Rule(ResourceType):
    """A rule by pattern or schedule, and its targets."""

    type = "AWS::Events::Rule"
    properties = frozenset({"Description", "EventPattern", "Name", "ScheduleExpression", "Targets"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("Name") or context.physical_name(64)
        arn = self._put(context, name, properties, Tags=context.tag_list(properties.get("Tags")))
        return Created(name, {"Arn": arn})

    @staticmethod
    def _put(context: ResourceContext, name: str, properties: Properties, **more: Any) -> str:
        events = context.client("events")
        request: dict[str, Any] = {
            key: properties[key]
            for key in ("Description", "ScheduleExpression")
            if key in properties
        }
        if "EventPattern" in properties:
            pattern = properties["EventPattern"]
            request["EventPattern"] = pattern if isinstance(pattern, str) else json.dumps(pattern)
        arn = events.put_rule(Name=name, **request, **more)["RuleArn"]
        context.begin(name)
        if properties.get("Targets"):
            answer = events.put_targets(Rule=name, Targets=properties["Targets"])
            if answer["FailedEntryCount"]:
                raise ResourceFailure(str(answer["FailedEntries"]))
        return str(arn)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = str(context.state.physical_id)
        gone = {t["Id"] for t in old.get("Targets", [])} - {t["Id"] for t in new.get("Targets", [])}
        if gone:
            context.client("events").remove_targets(Rule=name, Ids=sorted(gone))
        self._put(context, name, new)

    def delete(self, context: ResourceContext) -> None:
        events, name = context.client("events"), context.state.physical_id
        targets = [target["Id"] for target in context.state.properties.get("Targets", [])]
        if targets:
            events.remove_targets(Rule=name, Ids=targets)
        events.delete_rule(Name=name)
