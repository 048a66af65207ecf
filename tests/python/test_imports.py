# SPDX-License-Identifier: Apache-2.0
"""The modules of the package form layers: each imports only from layers below its own."""

import ast
import graphlib
from pathlib import Path

import cep
import pytest

PACKAGE = Path(cep.__file__).parent
USERS_OF_THE_CORE = ("cep.compat", "cep.integrations", "cep.torch")


def modules_in(package):
    """The files of a package by their modules' names."""
    files = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def names_imported(tree, package):
    """The absolute dotted names in a module's imports, wherever they stand: in functions and under TYPE_CHECKING too.

    ``from a import b`` gives a.b, whether b is a module or a name in one.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = [*parents, node.module] if node.module else parents
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "attr", getattr(node.func, "id", None))
            if function in ("import_module", "__import__"):
                yield str(node.args[0].value)


def import_graph(package):
    """For each module of a package, the modules of the package that it imports.

    Python runs a package's __init__.py before any module in it. That is not an import here: only a name taken from the
    package is.
    """
    files = modules_in(package)
    graph = {}
    for module, path in files.items():
        own_package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        imported = set()
        for name in names_imported(ast.parse(path.read_text(encoding="utf-8")), own_package):
            owner = name if name in files else name.rpartition(".")[0]
            if owner in files:
                imported.add(owner)
        graph[module] = imported - {module}
    return graph


def cycle_in(graph):
    """A chain of imports that ends where it begins, as text; None if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return None


def test_no_module_is_imported_by_what_it_imports():
    assert cycle_in(import_graph(PACKAGE)) is None


def test_the_core_imports_nothing_that_uses_it():
    graph = import_graph(PACKAGE)
    # Two are at the top: cep/__init__.py, where Profiler.escalate() imports cep.torch when it is called, and what starts
    # the instrumentation of `cep run`.
    top = {"cep", "cep._startup.sitecustomize"}
    core = {module for module in graph if not module.startswith(USERS_OF_THE_CORE)} - top
    wrong = {(module, name) for module in core for name in graph[module] if name.startswith(USERS_OF_THE_CORE)}
    assert core and not wrong


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__", "a", "b", "inner/__init__", "inner/c"):
        (folder / f"{name}.py").write_text("")
    return folder


@pytest.mark.parametrize("text", [
    "from .b import name",
    "from . import b",
    "import package.b",
    "def function():\n    from .b import name",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import name",
    "import importlib\nimportlib.import_module('package.b')",
])
def test_every_way_to_import_is_seen(package, text):
    (package / "a.py").write_text(text)
    assert import_graph(package)["package.a"] == {"package.b"}


def test_an_import_from_an_inner_package_is_seen(package):
    (package / "inner" / "c.py").write_text("from ..a import name\nfrom .. import b, name\nfrom . import name")
    assert import_graph(package)["package.inner.c"] == {"package.a", "package.b", "package", "package.inner"}


def test_a_cycle_is_named(package):
    (package / "a.py").write_text("from . import b")
    (package / "b.py").write_text("from .inner import c")
    (package / "inner" / "c.py").write_text("def function():\n    from ..a import name")
    cycle = cycle_in(import_graph(package)).split(" -> ")
    arrows = {("package.a", "package.b"), ("package.b", "package.inner.c"), ("package.inner.c", "package.a")}
    assert set(zip(cycle, cycle[1:])) == arrows
