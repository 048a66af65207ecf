# SPDX-License-Identifier: Apache-2.0
"""For scripts that compile nothing: PyTorch without its compiler, which optimizers, DDP and Lightning would import, and
which takes longer to import than all the rest."""

import sys
import types


class Nothing(types.ModuleType):
    """A module of which each attribute and each result is nothing too."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *_, **__):
        return self


compiler = Nothing("torch._dynamo")
compiler.disable = lambda function=None, *_, **__: function
compiler.OptimizedModule = type("OptimizedModule", (), {})
sys.modules["torch._dynamo"] = compiler
