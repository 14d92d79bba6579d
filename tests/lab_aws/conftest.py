"""The Region of the lab's own tests, for the commands of the product."""

from __future__ import annotations

from lab.tests.aws.conftest import lab as lab
