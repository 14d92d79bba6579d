"""The base class of our rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from lint.template import Place


class Rule(CloudFormationLintRule, ABC):  # type: ignore[misc] # cfn-lint ships no types
    """A rule that yields findings. The message of a finding names the property and the remedy.

    E9xxx are mistakes that AWS refuses or that do not work. W9xxx are matters of our own style.
    """

    tags: ClassVar[list[str]] = ["rackrate"]

    def match(self, cfn: Template) -> list[RuleMatch]:
        """The findings, without duplicates of the same place and message."""
        unique = dict.fromkeys((tuple(place), message) for place, message in self.findings(cfn))
        return [RuleMatch(list(place), message) for place, message in unique]

    @abstractmethod
    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        """Yield the place and the message of each violation of the rule."""
