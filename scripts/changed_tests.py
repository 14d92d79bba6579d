"""Run the tests that depend on changed files, by imports, for `make test-changed`.

Usage: python -m scripts.changed_tests [COMMIT]; by default the last commit of origin/main, or HEAD.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
#: Our packages, and the folder of each.
PACKAGES = {
    **{
        name: Path(name) for name in ("acceptance", "benchmarks", "lab", "lint", "scripts", "tests")
    },
    **{
        name: Path("functions", name)
        for name in ("handlers", "rackrate", "rackrate_contract", "rackrate_text")
    },
    "rackrate_cli": Path("cli"),
}
#: The modules that read files which no module lies beside, by the beginning of their paths.
READERS = {
    "docs/": "tests.docs",
    "statemachine/": "tests.statemachine.definition",
    "template": "tests.templates.cloudformation",
    "existing-cluster.yaml": "tests.templates.cloudformation",
    "tests/unit/data/": "tests.unit.tools",
}
#: Tests that need processes of their own, as in the Makefile.
APART = (("tests/browser/", "tests/cli/"), ("lab/tests/aws/",))
PYTEST = (sys.executable, "-m", "pytest", "--numprocesses", "2", "--dist", "loadfile")
#: Tests that need root, or minutes each.
LEFT_OUT = ("tests/lab/", "tests/lab_aws/", "tests/faults/", "tests/updates/")


def main(arguments: list[str]) -> int:
    """Run the tests. The exit code is 1 if one failed."""
    branches = _git("for-each-ref", "--format=%(refname)", "refs/remotes/origin/main").split()
    base = arguments[0] if arguments else _git("merge-base", "HEAD", *branches or ["HEAD"]).strip()
    tests = dependent_tests(changed_files(base))
    if not tests:
        print("No quick test depends on what changed.")
    apart = [[test for test in tests if test.startswith(folders)] for folders in APART]
    together = [test for test in tests if not any(test in group for group in apart)]
    codes = [
        subprocess.run([*PYTEST, *group], cwd=ROOT, check=False).returncode
        for group in (together, *apart)
        if group
    ]
    return int(any(codes))


def changed_files(base: str) -> list[str]:
    """The paths that differ from a commit, or that git does not know yet."""
    new = _git("ls-files", "--others", "--exclude-standard")
    return (_git("diff", "--name-only", base) + new).splitlines()


def dependent_tests(paths: Iterable[str]) -> list[str]:
    """The paths of the test files that import what these files hold, directly or not.

    A test also depends on each conftest.py above it.
    """
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    changed = {module for path in paths for module in _modules(path, graph)} & graph.modules
    dependent = changed.union(*(graph.find_downstream_modules(module) for module in changed))
    shared = {module.removesuffix("conftest") for module in dependent if _is(module, "conftest")}
    tests = {
        f"{module.replace('.', '/')}.py"
        for module in graph.modules
        if _is(module, "test_")
        and (module in dependent or any(module.startswith(package) for package in shared))
    }
    return sorted(test for test in tests if not test.startswith(LEFT_OUT))


def _is(module: str, beginning: str) -> bool:
    return module.rpartition(".")[2].startswith(beginning)


def _modules(path: str, graph: grimp.ImportGraph) -> Iterator[str]:
    """The module of a file, or those that read a file which is none."""
    for beginning, reader in READERS.items():
        if path.startswith(beginning) and not path.endswith(".py"):
            yield from (reader, *graph.find_descendants(reader))
            return
    file = Path(path)
    for package, folder in PACKAGES.items():
        if file.is_relative_to(folder):
            parts = (package, *file.relative_to(folder).parts[:-1])
            if file.suffix == ".py":
                yield ".".join((*parts, file.stem)).removesuffix(".__init__")
                return
            while ".".join(parts) not in graph.modules:
                parts = parts[:-1]
            yield from graph.find_descendants(".".join(parts))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
