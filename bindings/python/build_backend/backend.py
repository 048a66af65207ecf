# SPDX-License-Identifier: Apache-2.0
"""The build backend that pip calls for `pip install .`: builds with Meson, and packs the installed files as a wheel.

The wheel carries the Python package with its extension module (if Python's headers are there to build it), libcep.so,
the cep command, the manual pages, and the shared libraries that these need beyond the C library, so that it runs where none of them is
installed. Its tag names the oldest C library with which it runs.

Settings (``pip install --config-settings NAME=VALUE .``):
    build-dir: A build directory to use and keep. If it is built already, it is used as it is, whatever its options;
        else it is configured and built. Default: a temporary directory.
    setup-args: More arguments for `meson setup`, separated by blanks.
    licences: A folder with the licences of what is linked into the files, to go into the wheel.
    newest-glibc: Such as 2.28: it is an error if a file needs a newer C library, or a shared C++ runtime.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Mapping, Optional

from elf import bundle_libraries, platform_tag, too_new
from metadata import Project, WheelFile

SOURCE = Path(__file__).resolve().parents[3]
SETUP_OPTIONS = (
    "--buildtype=release",
    "-Dtools=enabled",
    "-Dpython=true",
    "-Dtests=disabled",
    "-Dcuda=disabled",
    "-Drust=disabled",
    "-Djulia=disabled",
)
LIBRARY = "libcep.so.0"
EXTENSION = "_native"

Settings = Optional[Mapping[str, str]]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Writes the .dist-info folder alone, which needs no build."""
    project = Project(SOURCE)
    folder = Path(metadata_directory) / project.dist_info
    folder.mkdir(parents=True)
    for name, text in project.files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """Builds the wheel; returns its file name."""
    with tempfile.TemporaryDirectory(prefix="cep-wheel-") as scratch:
        settings = config_settings or {}
        build = Path(settings.get("build-dir") or Path(scratch, "build")).absolute()
        install, package = Path(scratch, "install"), Path(scratch, "cep")
        _build(build, shlex.split(settings.get("setup-args") or ""))
        _stage(build, install, package)
        bundle_libraries(package / "bin" / "cep", package / "lib")
        bundle_libraries(package / "lib" / LIBRARY, package / "lib")
        if "newest-glibc" in settings:
            _refuse_newer_symbols(_binaries(package), settings["newest-glibc"])
        licences = sorted(Path(settings["licences"]).iterdir()) if "licences" in settings else []
        return _pack(package, _only(install, "share/man"), licences, Path(wheel_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Packs the files of the checkout that git does not ignore; returns the archive's file name."""
    project = Project(SOURCE)
    root = project.name
    command = ["git", "-C", str(SOURCE), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode != 0:
        raise SystemExit(f"cep: a source archive needs a git checkout: {listed.stderr.strip()}")
    with tarfile.open(Path(sdist_directory, f"{root}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(set(listed.stdout.split("\0"))):
            if name and (SOURCE / name).exists():
                archive.add(SOURCE / name, f"{root}/{name}", recursive=False, filter=_without_owner)
        information = tarfile.TarInfo(f"{root}/PKG-INFO")
        text = project.files()["METADATA"].encode()
        information.size = len(text)
        archive.addfile(information, io.BytesIO(text))
    return f"{root}.tar.gz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _run(*command: str) -> None:
    print("+", " ".join(command), flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode != 0:
        raise SystemExit(f"cep: {command[0]} failed; a C++20 compiler, Meson, Ninja and the libraries that README.md "
                         "names under Building are needed")


def _build(build: Path, setup_arguments: list[str]) -> None:
    if (build / "lib" / LIBRARY).exists() and (build / "tools" / "cep").exists():
        return
    if shutil.which("meson") is None:
        raise SystemExit("cep: no meson on PATH; it builds the library and the command")
    if not (build / "build.ninja").exists():
        _run("meson", "setup", *SETUP_OPTIONS, *setup_arguments, str(build), str(SOURCE))
    _run("meson", "compile", "-C", str(build), "cep:shared_library", "cep:executable", *_extension_module(build))


def _extension_module(build: Path) -> list[str]:
    """The target of the extension module; none if Python's headers are missing. The package then uses ctypes, without hooks of PyTorch."""
    command = ["meson", "introspect", "--targets", str(build)]
    targets = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [f"{target['name']}:shared_module" for target in targets if target["name"] == EXTENSION]


def _stage(build: Path, install: Path, package: Path) -> None:
    """Installs the build below `install`, and makes the package of it: cep/*.py, cep/bin/cep, cep/lib/libcep.so.0."""
    _run(
        "meson", "install", "-C", str(build), "--no-rebuild", "--quiet", "--strip",
        "--destdir", str(install), "--tags", "runtime,python-runtime,man",
    )  # fmt: skip
    shutil.copytree(_only(install, "cep/_ffi.py").parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, folder in (("bin/cep", "bin"), (LIBRARY, "lib")):
        (package / folder).mkdir(exist_ok=True)
        # The library's name is a link to a versioned file. The wheel gets the file.
        shutil.copy2(_only(install, name), package / folder / Path(name).name)


def _only(root: Path, name: str) -> Path:
    (path,) = root.rglob(name)
    return path


def _binaries(package: Path) -> list[Path]:
    return [*(package / "bin").iterdir(), *(package / "lib").iterdir(), *package.glob("*.so")]


def _refuse_newer_symbols(binaries: list[Path], newest_glibc: str) -> None:
    major, minor = (int(number) for number in newest_glibc.split("."))
    for path in binaries:
        if symbols := too_new(path, (major, minor)):
            raise SystemExit(f"cep: {path.name} needs more than glibc {newest_glibc}: {' '.join(symbols[:10])}")


def _pack(package: Path, manual: Path, licences: list[Path], directory: Path) -> str:
    project = Project(SOURCE)
    # Not "abi3": the wheel also serves Pythons that cannot load the extension module.
    tag = f"py3-none-{platform_tag(_binaries(package))}"
    name = f"{project.name}-{tag}.whl"
    with WheelFile(directory / name) as wheel:
        for path in sorted(path for path in package.rglob("*") if path.is_file()):
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            wheel.add(path.relative_to(package.parent).as_posix(), path.read_bytes(), mode)
        for path in sorted(manual.glob("man?/*")):
            # pip puts it below the environment's share/man, where man finds what belongs to a command on PATH.
            wheel.add(f"{project.name}.data/data/share/man/{path.relative_to(manual).as_posix()}", path.read_bytes())
        for path in licences:
            wheel.add(f"{project.dist_info}/licenses/{path.name}", path.read_bytes())
        for file, text in {**project.files(), "WHEEL": project.wheel_text(tag)}.items():
            wheel.add(f"{project.dist_info}/{file}", text.encode())
        wheel.add_record(f"{project.dist_info}/RECORD")
    print(f"{name}: {os.path.getsize(directory / name) / 1e6:.1f} MB", file=sys.stderr)
    return name
