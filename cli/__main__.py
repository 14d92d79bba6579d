"""Entry point of `python -m rackrate_cli`, which is the same as `rackrate`."""

from .main import app

app()
