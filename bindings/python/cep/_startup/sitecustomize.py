# SPDX-License-Identifier: Apache-2.0
"""Start-up of each Python process under `cep run`, which puts this folder on PYTHONPATH.

Python imports a module of this name by itself. This one waits for the script to import PyTorch or Lightning, which it
does not import, and then has the first optimizer bring in cep.integrations._auto. A process that makes no optimizer, such
as a loader's worker, does nothing of cep's. Needs Python's own library only; nothing here raises.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any, Callable

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_FOLDER)


def _try(what: str, act: Callable[[], object]) -> Any:
    """The result of a function; None, and a message, if it raises."""
    try:
        return act()
    except Exception as error:
        try:
            _say("%s is not instrumented: %s: %s" % (what, type(error).__name__, error))
        except Exception:  # stderr is closed
            return None


def _say(message: str) -> None:
    sys.stderr.write("cep run: " + message + "\n")


def _run_other_sitecustomize() -> None:
    """Runs the sitecustomize that this one hides, and leaves the path as it is without cep."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER]
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)  # what it raises, Python reports as without cep


class _PackageFinder:
    """Makes cep importable where the script's Python does not find it, in processes that the script spawns too."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "cep":
            return None
        import importlib.util

        file = os.path.join(_PACKAGE, "__init__.py")
        return importlib.util.spec_from_file_location("cep", file, submodule_search_locations=[_PACKAGE])


_auto: list[Any] = []


def _import_auto() -> Any:
    import importlib

    module = importlib.import_module("cep.integrations._auto")
    module.install()
    return module


def _installed() -> Any:
    """cep.integrations._auto, ready; None if it cannot be imported, which is said once."""
    if not _auto:
        _auto.append(_try("this process", _import_auto))
    return _auto[0]


def _replace(owner: Any, name: str, act: Callable[[Any, Any], object], what: str, is_after: bool) -> None:
    """Has cep act on an object before or after each call of a method."""
    import functools

    original = getattr(owner, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs) if is_after else None
        auto = _installed()
        if auto is not None:
            _try(what, lambda: act(auto, self))
        return result if is_after else original(self, *args, **kwargs)

    setattr(owner, name, functools.wraps(original)(method))


def _on_torch(torch: Any) -> None:
    _replace(torch.optim.Optimizer, "__init__", lambda auto, made: auto.add_optimizer(made), "an optimizer", is_after=True)


def _on_lightning(lightning: Any) -> None:
    import importlib

    def add(_: Any, trainer: Any) -> None:
        importlib.import_module("cep.integrations.lightning").add_to(trainer)

    _replace(lightning.Trainer, "fit", add, "Lightning", is_after=False)


_WANTED = {"torch": _on_torch, "lightning.pytorch": _on_lightning, "pytorch_lightning": _on_lightning}


class _Finder:
    """Calls a function once a module has been imported."""

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        function = _WANTED.get(name)
        if function is None or name in self._finding:
            return None
        self._finding.add(name)
        try:
            import importlib.util

            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                _call_after(spec.loader, function)
            return spec
        except Exception:
            return None  # the other finders raise what is wrong
        finally:
            self._finding.discard(name)


def _call_after(loader: Any, function: Callable[[Any], None]) -> None:
    original = loader.exec_module

    def exec_module(module: Any) -> None:
        original(module)
        try:
            del loader.exec_module
        except AttributeError:
            pass
        _try(module.__name__, lambda: function(module))

    loader.exec_module = exec_module


if os.environ.get("CEP_RUN_RECORDS"):
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_PackageFinder())
_run_other_sitecustomize()
