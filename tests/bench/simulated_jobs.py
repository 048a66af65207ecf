# SPDX-License-Identifier: Apache-2.0
"""For benchmarks of simulated jobs, which import it first: NumPy, without which they are skipped, and the modules of tests/engine."""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

if importlib.util.find_spec("numpy") is None:
    print("skipped: numpy is missing")
    sys.exit(77)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

COMMAND = os.environ.get("CEP_COMMAND", "cep")
COMMAND = os.path.abspath(COMMAND) if "/" in COMMAND else COMMAND


def parser_of(documentation):
    """The options that all have."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--only", default="", help="kinds with this in their name")
    return parser
