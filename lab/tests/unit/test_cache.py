"""The cache: an artifact is complete or missing, and concurrent requests build it once."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from lab.cache import artifact, cache_directory, key_of


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def write(directory: Path) -> None:
    (directory / "content").write_text("made")


def artifacts(name: str) -> list[str]:
    """All files under an artifact's name, including hidden ones."""
    return sorted(path.name for path in (cache_directory() / name).iterdir())


def test_a_build_that_fails_leaves_nothing_and_is_tried_again() -> None:
    def fail(directory: Path) -> None:
        write(directory)
        raise RuntimeError("half done")

    with pytest.raises(RuntimeError, match="half done"):
        artifact("thing", "one", fail)
    assert artifacts("thing") == []
    assert (artifact("thing", "one", write) / "content").read_text() == "made"


def test_what_an_interrupted_build_left_is_neither_used_nor_kept() -> None:
    half = cache_directory() / "thing" / ".making-killed"
    half.mkdir(parents=True)
    (half / "content").write_text("half")
    assert (artifact("thing", "one", write) / "content").read_text() == "made"
    assert artifacts("thing") == ["one"]


def test_what_is_there_is_not_built_again() -> None:
    first = artifact("thing", "one", write)

    def refuse(directory: Path) -> None:
        raise AssertionError("built twice")

    assert artifact("thing", "one", refuse) == first


def test_an_older_key_goes_when_the_new_one_is_built_but_not_when_that_fails() -> None:
    def fail(directory: Path) -> None:
        raise RuntimeError

    artifact("thing", "old", write)
    with pytest.raises(RuntimeError):
        artifact("thing", "new", fail)
    assert artifacts("thing") == ["old"]
    artifact("thing", "new", write)
    assert artifacts("thing") == ["new"]


def build_slowly(count: Path, together: multiprocessing.synchronize.Barrier) -> None:
    def build(directory: Path) -> None:
        with count.open("a") as log:
            log.write(f"{os.getpid()}\n")
        write(directory)

    together.wait(60)
    assert (artifact("thing", "one", build) / "content").read_text() == "made"


def test_two_processes_that_want_the_same_build_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(4)
    count = tmp_path / "count"
    processes = [context.Process(target=build_slowly, args=(count, together)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(count.read_text().splitlines()) == 1


def build_in(home: Path, count: Path, together: multiprocessing.synchronize.Barrier) -> None:
    os.environ["XDG_CACHE_HOME"] = str(home)
    build_slowly(count, together)


def test_a_cache_that_links_to_another_does_not_disturb_a_build_there(tmp_path: Path) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    (shared / "rackrate" / "thing").mkdir(parents=True)
    (private / "rackrate").mkdir(parents=True)
    (private / "rackrate" / "thing").symlink_to(shared / "rackrate" / "thing")
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    count = tmp_path / "count"
    processes = [
        context.Process(target=build_in, args=(home, count, together)) for home in (shared, private)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(count.read_text().splitlines()) == 1


def test_keys_tell_inputs_apart_wherever_they_are_cut() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a", b"b") == key_of(b"a", "b")
