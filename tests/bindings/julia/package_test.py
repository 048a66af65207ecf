# SPDX-License-Identifier: Apache-2.0
"""Runs the package's tests with `Pkg.test()`, on a copy of the package and without a registry.

    package_test.py JULIA PACKAGE_DIRECTORY
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# An empty registry, because Pkg downloads one if there is none.
EMPTY_REGISTRY = 'name = "Empty"\nuuid = "5e5b8c42-6c4b-4a83-8e4c-0c2a55d7ad11"\nrepo = ""\n\n[packages]\n'


def main():
    julia, package = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        registry = Path(folder) / "depot/registries/Empty"
        registry.mkdir(parents=True)
        (registry / "Registry.toml").write_text(EMPTY_REGISTRY, encoding="utf-8")
        copy = shutil.copytree(package, Path(folder) / "CEP")
        environment = {**os.environ, "JULIA_DEPOT_PATH": str(Path(folder) / "depot"), "JULIA_NUM_THREADS": "2"}
        command = [julia, "--startup-file=no", f"--project={copy}", "-e", "using Pkg; Pkg.test()"]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
