"""The stack that the tests of a lab share, as the owner of its parameters sees it."""

from __future__ import annotations

from botocore.exceptions import WaiterError

from lab import stack
from tests.lab.running import Lab


class SharedStack:
    """The stack, and what its parameters are."""

    def __init__(self, lab: Lab) -> None:
        self._cloudformation = lab.aws("cloudformation")
        self.given = self.parameters()

    def parameters(self) -> dict[str, str]:
        """The parameters as they are now."""
        return {p["ParameterKey"]: p["ParameterValue"] for p in self._described("Parameters")}

    def _described(self, section: str) -> list[dict[str, str]]:
        (description,) = self._cloudformation.describe_stacks(StackName=stack.STACK)["Stacks"]
        return list(description[section])

    def output(self, name: str) -> str:
        """An output as it is now."""
        (value,) = (o["OutputValue"] for o in self._described("Outputs") if o["OutputKey"] == name)
        return value

    def update(self, **changed: str) -> None:
        """Give some parameters other values and let the others be, as `update-stack` does."""
        self._cloudformation.update_stack(
            StackName=stack.STACK,
            UsePreviousTemplate=True,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[
                {"ParameterKey": name, "ParameterValue": changed[name]}
                if name in changed
                else {"ParameterKey": name, "UsePreviousValue": True}
                for name in self.given
            ],
        )
        try:
            self._cloudformation.get_waiter("stack_update_complete").wait(
                StackName=stack.STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 240}
            )
        except WaiterError as error:
            raise AssertionError(f"{error}: {self._reasons()}") from error

    def _reasons(self) -> list[str]:
        """Why resources failed, the newest first."""
        events = self._cloudformation.describe_stack_events(StackName=stack.STACK)["StackEvents"]
        return [
            f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in events
            if event["ResourceStatus"].endswith("FAILED")
        ]
