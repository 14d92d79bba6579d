"""The tests. Each lies in a folder like that of its subject."""

from pathlib import Path

#: The repository.
ROOT = Path(__file__).resolve().parents[1]
