"""One Region for all tests of the emulated AWS."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from moto.core.config import default_user_config
from moto.iam.models import iam_backends

from lab.aws.server import serve
from lab.tests.aws.region import Lab, RecordedInfrastructure


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One Region for all tests. Each test makes its own resources."""
    # In the lab a Region has its own process. Here other tests may have used moto's IAM before, and
    # moto loads AWS managed policies only when it creates a backend.
    default_user_config["iam"]["load_aws_managed_policies"] = True
    for account in iam_backends.values():
        for begun in account.values():
            begun.reset()
    listener = socket.create_server(("127.0.0.1", 0))
    directory = tmp_path_factory.mktemp("region")
    backend = RecordedInfrastructure()
    region = serve(
        listeners=[listener],
        endpoint_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        state_directory=directory,
        infrastructure=backend,
    )
    yield Lab(region, backend, directory)
    region.stop()
    listener.close()
