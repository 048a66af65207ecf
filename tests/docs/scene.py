# SPDX-License-Identifier: Apache-2.0
"""Where commands of the guide run: a folder as a source tree looks, with the build's command, library and package."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from slurm_cluster import SlurmCluster, slurm_is_here

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240
PROGRESS = re.compile(r"^cep: .* at [\d.]+ [kMG]?B/s\n", re.MULTILINE)  # of a command that takes over a second
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LAUNCHER_PREFIXES = ("CEP_", "SLURM_", "OMPI_", "PMI_", "MPI_", "TORCHELASTIC_")
MODULES = ("torch", "lightning", "transformers", "accelerate", "dask", "wandb", "tensorboard")
# Run by this interpreter, whichever stands on the path.
PYTHON_PROGRAMS = {"python3": "", "torchrun": "-m torch.distributed.run"}


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("examples", "bindings", "tools"):
            (folder / name).symlink_to(REPOSITORY / name)
        programs = folder / ".programs"
        programs.mkdir()
        (programs / "cep").symlink_to(os.environ["CEP_COMMAND"])
        for name, options in PYTHON_PROGRAMS.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n', encoding="utf-8")
            (programs / name).chmod(0o755)
        self.describe_library(programs)
        self.environment = self.clean_environment() | self.own_environment(programs)
        self.cluster: SlurmCluster | None = None

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        if self.cluster is not None:
            self.cluster.stop()

    def provide(self, needs: list[str]) -> None:
        """Starts what a block needs that does not run on this machine by itself."""
        if "slurm" in needs and self.cluster is None:
            self.cluster = SlurmCluster()
            self.environment |= self.cluster.environment
            # Its trainings compile nothing: without torch.compile, PyTorch takes half the time to import.
            self.environment["PYTHONPATH"] += f":{REPOSITORY / 'tests/python/without_compiler'}"

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
        binding = build / "bindings/python/native/_native.abi3.so"
        return {
            "CEP_BINDING": str(binding) if binding.exists() else "ctypes",
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / "bindings/python"),
            "CEP_LIBRARY": str(build / "lib/libcep.so.0"),
            "CEP_COMMAND": os.environ["CEP_COMMAND"],
            "CEP_LIB_DIR": str(build / "lib"),
            "LD_LIBRARY_PATH": str(build / "lib"),
            "PKG_CONFIG_PATH": str(programs),
            "CARGO_TARGET_DIR": str(build / "guide-cargo"),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
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
        done.stdout = PROGRESS.sub("", done.stdout)
        return done

    def shell(self, commands: str) -> subprocess.CompletedProcess[str]:
        return self.run(["sh", "-euc", commands])

    def lacks(self, what: str) -> bool:
        """Whether this machine lacks what a block needs: a Python module, a subcommand of cep or a program."""
        if what in MODULES:
            return importlib.util.find_spec(what) is None
        if what.startswith("cep "):
            return self.run(["cep", "help", what.removeprefix("cep ")]).returncode != 0
        if what == "slurm":
            return not slurm_is_here()
        return shutil.which(what) is None
