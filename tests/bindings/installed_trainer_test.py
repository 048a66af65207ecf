# SPDX-License-Identifier: Apache-2.0
"""A copy of examples/cpp_trainer outside the tree builds with an installed library and runs.

    installed_trainer_test.py (cmake | pkg-config) BUILD_DIRECTORY TRAINER_DIRECTORY
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
SPANS = {"training_step", "forward", "backward", "all_reduce", "optimizer", "save_checkpoint"}


def install(build, destination):
    """Installs library, headers, pkg-config file and CMake package. Returns an environment that finds them."""
    command = ["meson", "install", "--quiet", "--no-rebuild", "--tags", "devel,runtime", "-C", str(build)]
    subprocess.run([*command, "--destdir", str(destination)], check=True)
    (description,) = destination.rglob("cep.pc")
    environment = dict(os.environ)
    environment["PKG_CONFIG_PATH"] = str(description.parent)
    environment["PKG_CONFIG_SYSROOT_DIR"] = str(destination)
    (header,) = destination.rglob("cep/cep.h")
    environment["CMAKE_PREFIX_PATH"] = str(header.parents[2])
    environment["LD_LIBRARY_PATH"] = str(description.parent.parent)
    return environment


def build_with_cmake(source, environment):
    for command in (["cmake", "-S", ".", "-B", "build", "-G", "Ninja"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    return source / "build" / "trainer"


def build_with_pkg_config(source, environment):
    """Builds with the command from the comment in the source."""
    (command,) = [
        line.removeprefix("//").strip()
        for line in (source / "trainer.cpp").read_text(encoding="utf-8").splitlines()
        if line.startswith("//     c++ ")
    ]
    subprocess.run(["sh", "-c", command], cwd=source, env=environment, check=True)
    return source / "trainer"


BUILDERS = {"cmake": build_with_cmake, "pkg-config": build_with_pkg_config}


def main():
    tool, build, trainer = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    missing = [name for name in (tool, "c++", "meson") if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = install(build, root / "installed")
        source = Path(shutil.copytree(trainer, root / "trainer", ignore=shutil.ignore_patterns("build")))
        program = BUILDERS[tool](source, environment)
        subprocess.run([program, root / "output"], env=environment, check=True)
        text = (root / "output/cuda_event_profiler/cuda_events_rank_0.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    spans = {row["name"] for row in rows if "type" not in row}
    print(f"{len(rows)} rows; phases: {', '.join(sorted(spans))}")
    return 0 if spans == SPANS else 1


if __name__ == "__main__":
    sys.exit(main())
