# SPDX-License-Identifier: Apache-2.0
"""Where commands of the guide run: a folder as a source tree looks, with the build's command, library and package."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).resolve().parent / "stand_ins"
TIMEOUT_S = 240
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LAUNCHER_PREFIXES = ("CEP_", "SLURM_", "OMPI_", "PMI_", "MPI_", "TORCHELASTIC_")
MODULES = ("torch", "lightning", "transformers", "accelerate")
HOST_NAME = ["unshare", "--user", "--map-root-user", "--uts", "hostname", "node1"]


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("examples", "bindings", "tools"):
            (folder / name).symlink_to(REPOSITORY / name)
        programs = folder / ".programs"
        programs.mkdir()
        (programs / "cep").symlink_to(os.environ["CEP_COMMAND"])
        interpreter = programs / "python3"
        interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        interpreter.chmod(0o755)
        self.describe_library(programs)
        self.environment = self.clean_environment() | self.own_environment(programs)

    def describe_library(self, programs: Path) -> None:
        """For pkg-config: the library in the build directory as if it were installed."""
        library = Path(os.environ["GUIDE_BUILD_DIRECTORY"]) / "lib"
        lines = ["Name: cep", "Description: of the build", "Version: 0.1.0", f"Cflags: -I{REPOSITORY / 'include'}"]
        (programs / "cep.pc").write_text("\n".join([*lines, f"Libs: -L{library} -lcep", ""]), encoding="utf-8")

    @staticmethod
    def clean_environment() -> dict[str, str]:
        """This process's, less what configures a profiler or comes from a launcher."""
        return {
            name: value
            for name, value in os.environ.items()
            if name not in LAUNCHER_VARIABLES and not name.startswith(LAUNCHER_PREFIXES)
        }

    def own_environment(self, programs: Path) -> dict[str, str]:
        build = Path(os.environ["GUIDE_BUILD_DIRECTORY"])
        return {
            "PATH": f"{STAND_INS}:{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / "bindings/python"),
            "CEP_LIBRARY": str(build / "lib/libcep.so.0"),
            "CEP_COMMAND": os.environ["CEP_COMMAND"],
            "CEP_LIB_DIR": str(build / "lib"),
            "LD_LIBRARY_PATH": str(build / "lib"),
            "PKG_CONFIG_PATH": str(programs),
            "CARGO_TARGET_DIR": str(build / "guide-cargo"),
            "GUIDE_SCRATCH": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def shell(self, commands: str) -> subprocess.CompletedProcess[str]:
        return self.run(["sh", "-euc", commands])

    def lacks(self, what: str) -> bool:
        """Whether this machine lacks what a block needs: a Python module, a subcommand of cep or a program."""
        if what in MODULES:
            return importlib.util.find_spec(what) is None
        if what.startswith("cep "):
            return self.run(["cep", "help", what.removeprefix("cep ")]).returncode != 0
        if what == "host names":
            return shutil.which("unshare") is None or self.run(HOST_NAME).returncode != 0
        return shutil.which(what) is None
