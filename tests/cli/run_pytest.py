# SPDX-License-Identifier: Apache-2.0
"""Runs one pytest file; status 77 (skipped, for Meson) where pytest or NumPy is missing."""

import sys

try:
    import numpy  # noqa: F401
    import pytest
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
