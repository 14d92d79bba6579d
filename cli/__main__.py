"""`python -m rackrate_cli` is `rackrate`."""

from .main import app

app()
