"""Entry point of `rackrate` and of `python -m rackrate_cli`."""

import os
import signal
import sys

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command. Ctrl-C ends it without a traceback also while its modules are loaded."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # An exception could be lost: parts of Python's imports print and ignore it.
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    try:
        from .main import app

        signal.signal(signal.SIGINT, before)
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
