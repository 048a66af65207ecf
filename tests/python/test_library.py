# SPDX-License-Identifier: Apache-2.0
"""Finding libcep.so, and the error that lists the places."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cep
import pytest


def import_cep(**env):
    code = "import cep; print(cep.library_path())"
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)


def test_an_explicit_library_is_the_one_loaded():
    assert import_cep(CEP_LIBRARY=cep.library_path()).stdout.strip() == cep.library_path()


def test_a_wrong_explicit_library_is_named_and_not_passed_over(tmp_path):
    wrong = str(tmp_path / "nowhere" / "libcep.so")
    result = import_cep(CEP_LIBRARY=wrong)
    assert result.returncode != 0
    assert "ImportError" in result.stderr and wrong in result.stderr and "CEP_LIBRARY" in result.stderr


def test_a_library_that_is_not_libcep_is_refused():
    result = import_cep(CEP_LIBRARY="libc.so.6")
    assert "ImportError" in result.stderr and "libc.so.6 has no cep_" in result.stderr


def copy_of_the_package(folder):
    return Path(shutil.copytree(Path(cep.__file__).parent, folder / "cep"))


def test_the_library_beside_the_package_is_found(tmp_path):
    package = copy_of_the_package(tmp_path)
    (package / "lib").mkdir()
    inside = package / "lib" / "libcep.so.0"
    shutil.copy(cep.library_path(), inside)
    result = import_cep(CEP_LIBRARY="", PYTHONPATH=str(tmp_path))
    assert result.stdout.strip() == str(inside), result.stderr


def test_without_any_library_every_place_is_listed(tmp_path):
    package = copy_of_the_package(tmp_path)
    (package / "libcep.so.0").write_text("not a library")
    result = import_cep(CEP_LIBRARY="", PYTHONPATH=str(tmp_path), LD_LIBRARY_PATH="")
    if result.returncode == 0:
        pytest.skip(f"libcep is installed: {result.stdout.strip()}")
    assert str(package / "libcep.so.0") in result.stderr
    assert "libcep.so.0 (the loader's path)" in result.stderr


def test_the_version_is_the_librarys():
    assert cep.library_version().split(".")[:2] == cep.__version__.split(".")[:2]


def test_the_package_is_typed_and_says_what_everything_does():
    assert (Path(cep.__file__).parent / "py.typed").exists()
    for public in (cep.Profiler, cep.Region, cep.Stats, cep.TimedIterable):
        assert public.__doc__
        for name in dir(public):
            member = getattr(public, name)
            if not name.startswith("_") and callable(member):
                assert member.__doc__, f"{public.__name__}.{name}"


def test_the_codes_are_those_of_the_header():
    header = (Path(__file__).parents[2] / "include" / "cep" / "cep.h").read_text()
    codes = {name: int(value) for name, value in re.findall(r"^#define CEP_(E[A-Z]+) \((-\d+)\)", header, re.MULTILINE)}
    assert codes
    named = {name: getattr(cep, name) for name in cep.__all__ if re.fullmatch("E[A-Z]+", name)}
    assert named == codes
