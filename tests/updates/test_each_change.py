"""Every change of docs/updates.yaml on a stack: each alone, and the stack put back after it.

`make test-updates` runs it; tests/lab_aws/test_stack_updates.py tries the changes together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.tests.aws.conftest import lab as lab
from lab.tests.aws.region import Lab
from tests.lab_aws.changes import Change, changes
from tests.lab_aws.kubernetes_api import served
from tests.lab_aws.own_stack import OwnStack, check, packaged, stacks_to_change


@pytest.fixture(scope="module")
def deployed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, OwnStack]]:
    """A stack with a cluster of its own, and one that uses this cluster."""
    directory: Path = tmp_path_factory.mktemp("package")
    with served() as api:
        yield stacks_to_change(lab, api, packaged(lab, directory))


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.name)
def test_change_does_what_the_documentation_says(
    deployed: dict[bool, OwnStack], change: Change
) -> None:
    stack = deployed[change.existing]
    change = change.filled(stack.values)
    stack.become({**stack.home, **change.before})
    check(stack, [change])
    if change.late:
        stack.home = stack.parameters()
