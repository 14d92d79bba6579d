"""The rooms of the code: their imports point one way, and nothing that users run knows the lab."""

from __future__ import annotations

import copy
from graphlib import TopologicalSorter

import grimp
import pytest

from scripts.changed_tests import PACKAGES

FUNCTIONS = ("handlers", "rackrate", "rackrate_contract", "rackrate_text")
BENEATH_THE_LABS_AWS = ("lab.fabric", "lab.nodes", "lab.setup", "lab.simulated")


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph(*PACKAGES, cache_dir=None)


@pytest.mark.parametrize("package", ["rackrate", "rackrate_cli"])
def test_no_two_rooms_import_each_other(graph, package):
    graph, rooms = copy.deepcopy(graph), graph.find_children(package)
    assert len(rooms) > 10
    for room in rooms:
        graph.squash_module(room)
    TopologicalSorter(
        {room: graph.find_modules_directly_imported_by(room) & rooms - {room} for room in rooms}
    ).prepare()


@pytest.mark.parametrize(
    ("importers", "foreign"),
    [
        ((*FUNCTIONS, "rackrate_cli"), ("lab",)),
        (("rackrate_cli",), ("rackrate", "handlers")),
        (("lab",), (*FUNCTIONS[:2], "rackrate_text")),
        (("lab.aws",), BENEATH_THE_LABS_AWS),
    ],
)
def test_a_room_does_not_know_what_lies_above_or_beneath_it(graph, importers, foreign):
    modules = {
        module
        for importer in importers
        for module in graph.find_descendants(importer)
        if not module.startswith("lab.tests.")
    }
    assert len(modules) > 50
    wrong = {
        (module, imported)
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
        if any(f"{imported}.".startswith(f"{name}.") for name in foreign)
    }
    assert wrong == set()
