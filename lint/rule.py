"""What every rule of ours shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from lint.template import Place


class Rule(CloudFormationLintRule, ABC):  # type: ignore[misc] # cfn-lint ships no types
    """A rule that yields findings. E9xxx: AWS refuses it or it does not work. W9xxx: our own style.

    A finding's message names the property and the remedy.
    """

    tags: ClassVar[list[str]] = ["rackrate"]

    def match(self, cfn: Template) -> list[RuleMatch]:
        """The findings, each place and message once."""
        found = dict.fromkeys((tuple(place), said) for place, said in self.findings(cfn))
        return [RuleMatch(list(place), said) for place, said in found]

    @abstractmethod
    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        """Yields the place and the message of everything that breaks the rule."""
