"""A worker that a zygote forked is like a new process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lab.aws.awslambda import zygote
from lab.aws.awslambda.processes import SHARED_VARIABLES, Processes
from lab.tests.aws.region import Lab, eventually

REPOSITORY = Path(__file__).resolve().parents[4]
# Stands for a large package: a zygote imports it if the archive has it.
PACKAGE = {"pydantic/__init__.py": "import os\nIMPORTED_BY = os.getpid()\n"}
WHO = """
    import os, pydantic, random
    def handler(event, context):
        return {"me": os.getpid(), "importer": pydantic.IMPORTED_BY, "random": random.random()}
    """
TRAITS = """
    import contextlib, os, signal, sys, threading, time
    at_import = {
        "arguments": sys.argv[1:], "paths": sys.path, "flags": list(sys.flags), "zone": time.tzname,
    }
    def links():
        for number in sorted(os.listdir("/proc/self/fd"), key=int):
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(f"/proc/self/fd/{number}").split(":")[0]
    def handler(event, context):
        return {
            **at_import,
            "main": sys.modules["__main__"].__name__,
            "directory": os.getcwd(),
            "environment": sorted(os.environ),
            "descriptors": [*links()],
            "leads": os.getpid() == os.getsid(0) == os.getpgid(0),
            "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "threads": threading.active_count(),
            "encodings": [sys.stdout.encoding, sys.getfilesystemencoding()],
        }
    """


def test_functions_of_an_archive_share_its_packages_but_no_process(lab: Lab) -> None:
    first, second = (lab.invoke(lab.function(WHO, PACKAGE)) for _ in range(2))
    assert first["importer"] == second["importer"]
    assert len({first["importer"], first["me"], second["me"]}) == 3


OWN = """
    import os, pydantic, domain.model
    def handler(event, context):
        importers = pydantic.IMPORTED_BY, domain.model.IMPORTED_BY
        return {"me": os.getpid(), "importers": importers}
    """


def test_functions_share_what_their_handlers_import_from_other_packages(lab: Lab) -> None:
    domain = {"domain/__init__.py": "", "domain/model.py": "import os\nIMPORTED_BY = os.getpid()\n"}
    first, second = (lab.invoke(lab.function(OWN, {**PACKAGE, **domain})) for _ in range(2))
    assert len({*first["importers"], *second["importers"]}) == 1
    assert first["me"] != second["me"]


@pytest.mark.parametrize(
    "statement",
    [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "KEPT = open('/dev/null')",
    ],
)
def test_what_cannot_be_shared_is_imported_by_each_worker(lab: Lab, statement: str) -> None:
    model = f"import os, threading\n{statement}\nIMPORTED_BY = os.getpid()\n"
    domain = {"domain/__init__.py": "", "domain/model.py": model}
    result = lab.invoke(lab.function(OWN, {**PACKAGE, **domain}))
    package, own = result["importers"]
    assert own == result["me"] != package


def test_each_stack_has_its_own_value_of_what_its_functions_have_in_common(lab: Lab) -> None:
    model = "import os\nIMPORTED_BY = os.getpid()\nSTACK = os.environ['POWERTOOLS_SERVICE_NAME']\n"
    files = {**PACKAGE, "domain/__init__.py": "", "domain/model.py": model}
    code = OWN.replace('"me": os.getpid()', '"me": os.getpid(), "stack": domain.model.STACK')

    def result_of(stack: str) -> Any:
        variables = {"POWERTOOLS_SERVICE_NAME": stack}
        return lab.invoke(lab.function(code, files, Environment={"Variables": variables}))

    one, other, again = result_of("one"), result_of("other"), result_of("one")
    assert [each["stack"] for each in (one, other, again)] == ["one", "other", "one"]
    assert one["importers"] == again["importers"] != other["importers"]
    assert other["me"] not in other["importers"]


def test_an_import_that_hangs_is_left_to_the_workers(tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text("import time\ntime.sleep(1000)\n")
    (tmp_path / "index.py").write_text("import slow\n")
    script = (
        "import sys; from lab.aws.awslambda import zygote; zygote.INIT_SECONDS = 1"
        "; print(sorted(zygote.import_for('index.handler')), 'slow' in sys.modules)"
    )
    paths = os.pathsep.join((str(tmp_path), str(REPOSITORY)))
    command = [sys.executable, "-c", script]
    output = subprocess.check_output(command, cwd=tmp_path, env={"PYTHONPATH": paths}, text=True)
    assert output == "[] False\n"


def test_a_stacks_two_archives_and_one_of_its_update_keep_their_zygotes(lab: Lab) -> None:
    archives = [{**PACKAGE, "version.py": f"NUMBER = {number}\n"} for number in range(3)]
    first = [lab.invoke(lab.function(WHO, files))["importer"] for files in archives]
    again = [lab.invoke(lab.function(WHO, files))["importer"] for files in archives]
    assert first == again
    assert len(set(first)) == 3


def test_forked_workers_draw_different_random_numbers(lab: Lab) -> None:
    with_random = {"pydantic/__init__.py": "import os, random\nIMPORTED_BY = os.getpid()\n"}
    first, second = (lab.invoke(lab.function(WHO, with_random)) for _ in range(2))
    assert first["importer"] == second["importer"]
    assert first["random"] != second["random"]


def test_a_forked_worker_has_the_traits_of_one_that_was_started(lab: Lab) -> None:
    forked = lab.invoke(lab.function(TRAITS, PACKAGE))
    started = lab.invoke(lab.function(TRAITS, {"other/__init__.py": ""}))
    for traits in (forked, started):
        own, _, *others = traits["paths"]
        assert own == traits["directory"]
        traits["paths"], traits["directory"] = others, "of the archive"
    assert forked == started


def test_a_package_that_reads_a_functions_variable_is_imported_with_its_value(lab: Lab) -> None:
    files = {
        "pydantic/__init__.py": """
            import os
            IMPORTED_BY, COLOUR = os.getpid(), os.environ.get("COLOUR", "none")
            """
    }
    code = """
        import os, pydantic
        def handler(event, context):
            return {"forked": pydantic.IMPORTED_BY != os.getpid(), "colour": pydantic.COLOUR}
        """
    green = lab.function(code, files, Environment={"Variables": {"COLOUR": "green"}})
    plain = lab.function(code, files, Environment={"Variables": {"SIZE": "large"}})
    assert lab.invoke(green) == {"forked": False, "colour": "green"}
    assert lab.invoke(plain) == {"forked": True, "colour": "none"}


@pytest.mark.parametrize("name", ["PYTHONOPTIMIZE", "LC_ALL", "LD_PRELOAD"])
def test_what_a_program_reads_when_it_starts_is_not_taken_from_the_zygote(name: str) -> None:
    assert zygote.accepts({"COLOUR": "green"}, {}, set())
    assert not zygote.accepts({name: "1"}, {}, set())
    assert not zygote.accepts({}, {name: "1"}, set())


def test_a_package_that_reads_the_whole_environment_is_never_shared(lab: Lab) -> None:
    files = {
        "pydantic/__init__.py": "import os\nIMPORTED_BY, ALL = os.getpid(), dict(os.environ)\n"
    }
    result = lab.invoke(lab.function(WHO, files))
    assert result["importer"] == result["me"]


def test_after_a_zygote_was_killed_functions_work_and_have_a_new_one(lab: Lab) -> None:
    package = {"pydantic/__init__.py": PACKAGE["pydantic/__init__.py"] + "KILLED = True\n"}
    name = lab.function(WHO, package)
    before = lab.invoke(name)
    os.kill(before["importer"], signal.SIGKILL)
    eventually(lambda: lab.invoke(name), lambda result: "me" in result)
    after = lab.invoke(lab.function(WHO, package))
    assert after["importer"] not in (before["importer"], after["me"])


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts processes of an archive whose runtime client waits for ever."""
    (tmp_path / "pydantic").mkdir()
    (tmp_path / "pydantic" / "__init__.py").touch()
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "awslambdaric.py").write_text("import time\ntime.sleep(1000)\n")
    processes = Processes(tmp_path / "client")
    yield processes
    processes.stop()


def test_workers_of_a_killed_zygote_end_as_killed(processes: Processes, tmp_path: Path) -> None:
    worker = processes.start("index.handler", tmp_path, [], {"TMPDIR": str(tmp_path / "worker")})
    parent = int(Path("/proc", str(worker.pid), "stat").read_text().rpartition(")")[2].split()[1])
    assert parent != os.getpid()
    os.kill(parent, signal.SIGKILL)
    assert worker.ended(10)
    assert worker.poll() == -signal.SIGKILL
    os.close(worker.output)


def test_a_zygote_ends_with_its_lab(processes: Processes, tmp_path: Path) -> None:
    worker = processes.start("index.handler", tmp_path, [], {"TMPDIR": str(tmp_path / "worker")})
    status = Path("/proc", str(worker.pid), "stat").read_text()
    os.killpg(worker.pid, signal.SIGTERM)
    assert worker.ended(10)
    assert worker.poll() == -signal.SIGTERM
    processes.stop()
    assert not Path("/proc", status.rpartition(")")[2].split()[1]).exists()
    os.close(worker.output)


def test_our_functions_share_what_they_import_and_read_no_variable_in_which_they_differ(
    tmp_path: Path,
) -> None:
    """Else each function would get a new process, and nobody would notice but the clock."""
    packages = Path(boto3.__file__).parents[1]
    for part in (*packages.iterdir(), *(REPOSITORY / "functions").iterdir()):
        (tmp_path / part.name).symlink_to(part)
    script = """
import json, sys, threading
from pathlib import Path
from lab.aws.awslambda import zygote
read = zygote.import_packages()
for file in sorted(Path("handlers").glob("*.py")):
    read |= zygote.import_for(f"handlers.{file.stem}.handler")
wanted = ("boto3", "rackrate.stages.run.launch", "rackrate.stages.run.collect", "numpy")
print(json.dumps([[*read], threading.active_count(), [n for n in wanted if n not in sys.modules]]))
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join((str(tmp_path), str(REPOSITORY)))},
        capture_output=True,
        text=True,
        check=True,
    )
    read, threads, missing = json.loads(result.stdout)
    assert threads == 1
    assert missing == []
    templates = " ".join(path.read_text() for path in (REPOSITORY / "templates").glob("*.yaml"))
    ours = {name for name in read if f" {name}:" in templates}
    assert ours <= set(SHARED_VARIABLES)
    assert all(len({*re.findall(rf" {name}: (.*)", templates)}) == 1 for name in ours)
    assert "*" not in read
