# SPDX-License-Identifier: Apache-2.0
"""For scripts that compile nothing: PyTorch without its compiler, which the first optimizer would import, and which takes
longer to import than all the rest."""

import sys
import types

compiler = types.ModuleType("torch._dynamo")
compiler.disable = lambda function=None, *_, **__: function
compiler.graph_break = lambda: None
sys.modules["torch._dynamo"] = compiler
