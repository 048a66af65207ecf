# SPDX-License-Identifier: Apache-2.0
"""cep, the CUDA Event Profiler: coarse phase timing for long training jobs.

    import cep

    with cep.Profiler("output", record_every_n_steps=10) as prof:
        for step in range(1000):
            prof.step(step)
            with prof.region("forward"):
                loss = model(batch)
            with prof.region("backward"):
                loss.backward()

Each rank writes ``output/cuda_event_profiler/cuda_events_rank_<rank>.jsonl``; ``cep summarize output`` reads them, and
so does ``cep.show("output")`` in a notebook. The package is a thin layer over libcep.so (see cep(3)), which it looks
for in ``CEP_LIBRARY``, then in its own directory, then in the loader's path.

The calls of a step loop go through an extension module if the package has one for this Python, else through ctypes;
``cep.binding`` tells which, and ``CEP_BINDING`` overrules the choice. The hooks of cep.torch need the module.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _binding, _profiler
from ._attributes import HOST
from ._errors import EINTERNAL, EINVAL, EIO, EJSON, ELIMIT, ENOMEM, EOPTION, ETIMEDOUT, Error, OptionError
from ._ffi import Stats, library_path, library_version
from ._region import Region, TimedIterable

if TYPE_CHECKING:
    from ._show import show
    from .torch import Escalation

__version__ = "0.2.0"

binding: str = _binding.name
"""How a step loop's calls reach libcep: "native" (the extension module) or "ctypes"."""

__all__ = [
    "EINTERNAL", "EINVAL", "EIO", "EJSON", "ELIMIT", "ENOMEM", "EOPTION", "ETIMEDOUT", "Error", "HOST", "OptionError",
    "Profiler", "Region", "Stats", "TimedIterable", "__version__", "binding", "library_path", "library_version",
    "show",
]  # fmt: skip


class Profiler(_profiler.Profiler):
    # escalate() needs cep.torch, and cep.torch needs the class in _profiler. So escalate() is added here.
    __doc__ = _profiler.Profiler.__doc__

    def escalate(self, rule: Callable[..., Optional[str]], **options: Any) -> Escalation:
        """Runs torch.profiler for a few steps once a rule on this rank's own timings fires. Imports PyTorch.

        Args:
            rule: As for cep.torch.Escalation; so are the options.
        """
        from .torch import Escalation

        return Escalation(self, rule, **options)


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """cep.compat, cep.integrations, cep.torch and what show() needs are imported when they are first used."""
        if name == "show":
            return importlib.import_module("cep._show").show
        if name in ("compat", "integrations", "torch"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
