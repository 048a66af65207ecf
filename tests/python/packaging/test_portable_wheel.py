# SPDX-License-Identifier: Apache-2.0
"""The wheels that tools/wheel.sh has put into dist/, one for each machine: what they need of the system that they are
installed on."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
NEWEST_GLIBC = (2, 27)  # Ubuntu 18.04; RHEL 8 has 2.28
C_LIBRARY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
ELF_MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}


@pytest.fixture(scope="module", params=sorted(LOADERS))
def machine(request):
    return request.param


@pytest.fixture(scope="module")
def wheel(machine):
    wheels = sorted(SOURCE.glob(f"dist/cep-*-manylinux_*_{machine}.whl"))
    if not wheels:
        pytest.skip(f"no wheel for {machine} in dist; tools/wheel.sh makes it")
    (path,) = wheels
    return path


@pytest.fixture(scope="module")
def binaries(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert {path.name for path in files} == {"cep", "libcep.so.0", "_native.abi3.so"}
    return files


def read_elf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True).stdout


def needed_versions(path):
    """The versions of symbols that a file needs, such as GLIBC_2.17, by readelf's section of version needs."""
    needs = read_elf(path, "--version-info").partition("Version needs section")[2]
    return set(re.findall(r"Name: (\S+)", needs))


def test_it_needs_no_newer_c_library_than_the_oldest_supported(binaries):
    for path in binaries:
        glibc = {tuple(map(int, version[6:].split("."))) for version in needed_versions(path) if version[:6] == "GLIBC_"}
        assert glibc and max(glibc) <= NEWEST_GLIBC, (path.name, sorted(glibc))


def test_it_needs_symbols_of_the_c_library_only(binaries):
    for path in binaries:
        others = {version for version in needed_versions(path) if not version.startswith("GLIBC_")}
        assert others == set(), path.name


def test_its_binaries_are_for_the_machine_in_its_name(machine, binaries):
    for path in binaries:
        assert re.search(r"Machine: +(.*)", read_elf(path, "-h"))[1] == ELF_MACHINES[machine], path.name


def test_it_brings_all_libraries_but_the_c_library_inside_its_files(machine, binaries):
    for path in binaries:
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", read_elf(path, "-d")))
        assert needed <= C_LIBRARY | {LOADERS[machine]}, path.name


def test_nothing_of_the_runtime_inside_is_visible_outside(binaries):
    for path in binaries:
        symbols = re.findall(r"^ +\d+: .* (?:GLOBAL|WEAK|UNIQUE) +DEFAULT +(?!UND)\S+ +(\S+)$",
                             read_elf(path, "--dyn-syms"), re.MULTILINE)
        names = {symbol.split("@")[0] for symbol in symbols}
        foreign = {name for name in names if not name.startswith(("cep_", "CEP_", "PyInit_"))} - {"_init", "_fini"}
        assert path.name == "cep" or foreign == set(), path.name


def test_it_states_the_licences_of_what_is_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    stated = {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
    inside = {"libcjson-dev", "libsimdjson-dev", "libzstd-dev", "zlib1g-dev", "libfmt-dev", "libcli11-dev"}
    assert inside <= stated and any(name.startswith("gcc-") for name in stated)


def test_the_tag_names_the_c_library_that_is_needed(machine, wheel, binaries):
    tag = re.fullmatch(rf"cep-[\d.]+-py3-none-manylinux_(\d+)_(\d+)_{machine}\.whl", wheel.name)
    assert tag, wheel.name
    versions = {version for path in binaries for version in needed_versions(path)}
    newest = max(tuple(map(int, version[6:].split(".")[:2])) for version in versions)
    assert (int(tag[1]), int(tag[2])) == newest <= NEWEST_GLIBC
