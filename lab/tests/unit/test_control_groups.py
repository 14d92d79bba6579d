"""The lab's control groups, in directories that replace the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import control_groups


@pytest.fixture(params=["version 1", "version 2"])
def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a lab."""
    root = tmp_path / "cgroup"
    root.mkdir()
    if request.param == "version 2":
        (root / "cgroup.controllers").write_text("cpu memory\n")
    else:
        for hierarchy in ("cpu", "memory"):
            (root / hierarchy).mkdir()
            (root / hierarchy / "cgroup.procs").touch()
        (root / "systemd-without-groups").mkdir()
        (root / "cpuacct").symlink_to("cpu")
    monkeypatch.setattr(control_groups, "ROOT", root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def test_without_a_lab_there_is_nothing_to_find_enter_or_remove(root: Path) -> None:
    before = sorted(root.rglob("*"))
    assert not control_groups.exist()
    assert control_groups.peak_memory_bytes() is None
    control_groups.enter("services")
    control_groups.remove()
    assert sorted(root.rglob("*")) == before


def test_each_hierarchy_has_one_tree_named_by_the_cache(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trees = control_groups.trees()
    assert len(trees) == (1 if control_groups.unified() else 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert not set(trees) & set(control_groups.trees()), "another cache's lab is another's"


def test_remove_takes_nested_groups_and_leaves_the_kernels(root: Path) -> None:
    for tree in control_groups.trees():
        (tree / "pods" / "pod1" / "container1").mkdir(parents=True)
        (tree / "services").mkdir()
    assert control_groups.exist()
    control_groups.remove()
    assert not control_groups.exist()
    assert root.exists()


def test_a_node_has_a_group_of_its_own_for_pods_and_takes_it_along(root: Path) -> None:
    for tree in control_groups.trees():
        (tree / "pods").mkdir(parents=True)
        (tree / "pods" / "cgroup.controllers").write_text("cpu memory\n")
    for node in ("one", "other"):
        path = control_groups.make_for_pods(node)
        assert path == f"/{control_groups.name()}/pods/{node}"
    for tree in control_groups.trees():
        assert (tree.parent / path.lstrip("/")).is_dir()
        (tree / "pods" / "one" / "kubepods" / "pod1").mkdir(parents=True)
    control_groups.remove_for_pods("one")
    for tree in control_groups.trees():
        assert [each.name for each in (tree / "pods").iterdir() if each.is_dir()] == ["other"]


def test_peak_memory_is_what_the_kernel_says(root: Path) -> None:
    name = control_groups.name()
    where = (
        root / name / "memory.peak"
        if control_groups.unified()
        else root / "memory" / name / "memory.max_usage_in_bytes"
    )
    where.parent.mkdir(parents=True)
    where.write_text("1234567\n")
    assert control_groups.peak_memory_bytes() == 1234567
