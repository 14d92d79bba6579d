"""The layers of the functions: they have what the functions import, and leave room."""

from __future__ import annotations

import functools
import subprocess
import sys
from importlib.util import cache_from_source
from modulefinder import ModuleFinder
from pathlib import Path

import pytest

from scripts import packages
from tests.templates.cloudformation import TEMPLATES, load


def handlers():
    """The modules of all handlers, by the layers that the templates give them."""
    by_layers = {layers: set() for layers in packages.LARGEST_SHARE}
    for path in TEMPLATES:
        template = load(path)
        shared = template.get("Globals", {}).get("Function", {})
        for resource in template["Resources"].values():
            if resource["Type"] != "AWS::Serverless::Function":
                continue
            properties = resource["Properties"]
            # SAM adds a function's layers to those of all functions of its template.
            layers = [*shared.get("Layers", []), *properties.get("Layers", [])]
            if layers:  # without, as in templates/image.yaml, it imports nothing but Lambda's own
                named = tuple(layer["Ref"] for layer in layers)
                by_layers[named].add(properties["Handler"].rpartition(".")[0])
    return by_layers


HANDLERS = handlers()
contents = functools.cache(packages.contents)
each_set = pytest.mark.parametrize("layers", HANDLERS, ids=" and ".join)


def unpack(layers, folder):
    """Unpack the functions and layers, as links to their files."""
    for name, source in contents(layers).items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)
        # What Python has compiled already, which takes most of an import's time.
        compiled = Path(cache_from_source(source)) if link.suffix == ".py" else source
        if compiled != source and compiled.exists():
            (link.parent / "__pycache__").mkdir(exist_ok=True)
            (link.parent / "__pycache__" / compiled.name).symlink_to(compiled)


def missing(layers, modules):
    """What modules import, and what that imports, also within functions, that is in no layer."""
    finder = ModuleFinder(path=[str(packages.CODE)])
    for module in sorted(modules):
        finder.import_hook(module)
    imported = {name.partition(".")[0] for name in finder.badmodules}
    own = {Path(name).parts[0].partition(".")[0] for name in contents(layers)}
    return imported - own - sys.stdlib_module_names


@each_set
def test_every_handler_is_imported_with_what_its_layers_have(layers, tmp_path):
    assert HANDLERS[layers]
    unpack(layers, tmp_path)
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        # Without the packages of this environment.
        [sys.executable, "-S", "-s", "-B", "-c", program, *sorted(HANDLERS[layers])],
        env={"PYTHONPATH": str(tmp_path), "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@each_set
def test_no_handler_imports_later_what_its_layers_lack(layers):
    assert missing(layers, HANDLERS[layers]) == set()


def test_an_import_within_a_function_is_found():
    lacking = missing(("DependenciesLayer",), ["handlers.compare"])
    assert lacking == {"jinja2", "markupsafe", "matplotlib"}


def test_the_layers_leave_room_for_the_next_dependency(capsys):
    assert packages.main() == 0
    assert capsys.readouterr().out.count("MB unpacked") == len(HANDLERS)


def test_a_layer_that_leaves_too_little_room_is_named(monkeypatch, capsys):
    monkeypatch.setattr(packages, "LARGEST_SHARE", {("DependenciesLayer",): 0.3})
    assert packages.main() == 1
    assert "DependenciesLayer takes more than 30%" in capsys.readouterr().err
