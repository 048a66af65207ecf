# SPDX-License-Identifier: Apache-2.0
"""For scripts that compile nothing: PyTorch without its compiler, which optimizers, DDP and Lightning would import, and
without what the compiler knows of operators. That takes longer to import than all the rest. Nor are the modules searched
for garbage at exit, which would take a quarter of the time that is left."""

import atexit
import gc
import importlib.machinery
import sys
import types

atexit.register(gc.freeze)


class Nothing(types.ModuleType):
    """A module of which each attribute and each result is nothing too."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *_, **__):
        return self


compiler = Nothing("torch._dynamo")
compiler.__path__ = []  # of its modules, see ModulesOfCompiler
compiler.disable = lambda function=None, *_, **__: function or (lambda decorated: decorated)
compiler.OptimizedModule = type("OptimizedModule", (), {})
compiler.eval_frame = compiler
sys.modules["torch._dynamo"] = compiler


class OperatorsOfCompiler:
    """Stands for the module that tells the compiler of all operators; of what it imports, generators of random numbers
    need a class."""

    def find_spec(self, name, *_):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch._meta_registrations" else None

    def create_module(self, _):
        return None

    def exec_module(self, _):
        import torch

        if hasattr(torch._C, "_set_generator_metaclass"):
            torch._C._set_generator_metaclass(importlib.import_module("torch._opaque_base").OpaqueBaseMeta)


class ModulesOfCompiler:
    """Each is nothing."""

    def find_spec(self, name, *_):
        return importlib.machinery.ModuleSpec(name, self) if name.startswith("torch._dynamo.") else None

    def create_module(self, spec):
        return Nothing(spec.name)

    def exec_module(self, _):
        pass


sys.meta_path[:0] = OperatorsOfCompiler(), ModulesOfCompiler()
