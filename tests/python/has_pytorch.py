# SPDX-License-Identifier: Apache-2.0
"""Exits with 0 where this interpreter has the modules that are named and a PyTorch that cep.torch works with, and imports
none of them, which would take seconds. torch.distributed.pipelining has come with PyTorch 2.4, which cep.torch needs."""

import importlib.util
import sys
from pathlib import Path

found = [importlib.util.find_spec(name) for name in ("torch", *sys.argv[1:])]
sys.exit(not all(found) or not (Path(found[0].origin).parent / "distributed/pipelining").is_dir())
