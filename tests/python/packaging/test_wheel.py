# SPDX-License-Identifier: Apache-2.0
"""The wheel: built from this build, installed into an empty environment, and used there as a user would."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
PACKAGE = SOURCE / "bindings" / "python" / "cep"
C_LIBRARY = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so")
TEN_LINES = """
import cep

with cep.Profiler("output") as prof:
    for step in range(100):
        prof.step(step)
        with prof.region("forward"):
            loss = sum(weight * weight for weight in range(20_000))
        with prof.region("optimizer"):
            ranked = sorted(range(20_000), key=lambda weight: -weight)
"""


def run(*command, cwd=None, status=0):
    # Nothing of this build is in the environment: the installed files have to be enough.
    environment = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    environment["PATH"] = "/usr/bin:/bin"
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def toml_parser():
    if importlib.util.find_spec("tomllib") is None and importlib.util.find_spec("tomli") is None:
        pytest.skip("no TOML parser")


@pytest.fixture(scope="module")
def build(toml_parser):
    folder = Path(os.environ["TEST_BUILD_DIRECTORY"])
    if not (folder / "tools" / "cep").exists():
        pytest.skip("the cep command is not built")
    return folder


def pip_wheel(folder, *settings):
    options = ["--no-deps", "--no-build-isolation", "-w", folder]
    for setting in settings:
        options += ["--config-settings", setting]
    command = (sys.executable, "-m", "pip", "wheel", *options, SOURCE)
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, build):
    folder = tmp_path_factory.mktemp("wheel")
    result = pip_wheel(folder, f"build-dir={build}")
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of an environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    try:
        run(sys.executable, "-m", "venv", folder)
    except AssertionError as failure:
        pytest.skip(f"no environment can be made: {failure}")
    run(folder / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    return folder


@pytest.fixture(scope="module")
def binaries(installed):
    """Every program and shared library that the wheel brought, by name."""
    (package,) = installed.glob("lib/python*/site-packages/cep")
    files = [path for folder in ("bin", "lib") for path in (package / folder).iterdir()] + [*package.glob("*.so")]
    assert {"cep", "libcep.so.0"} <= {path.name for path in files}
    return {path.name: path for path in files}


def test_a_ten_line_job_and_its_summary_in_a_clean_directory(installed, tmp_path):
    (tmp_path / "job.py").write_text(TEN_LINES)
    run(installed / "bin" / "python", "job.py", cwd=tmp_path)
    table = run(installed / "bin" / "python", "-m", "cep", "summarize", "output", cwd=tmp_path)
    assert re.search(r"^forward +compute +host +10 ", table, re.MULTILINE), table
    assert run(installed / "bin" / "cep", "summarize", "output", cwd=tmp_path) == table


def test_it_runs_where_none_of_its_libraries_is_installed(installed, binaries, tmp_path):
    """Runs it in a mount namespace in which the machine's own libraries are empty files."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("no right to a mount namespace")
    (tmp_path / "empty").touch()
    (tmp_path / "job.py").write_text(TEN_LINES)
    known = dict(re.findall(r"^\s*(\S+) .*=> (/\S+)", run("/sbin/ldconfig", "-p"), re.MULTILINE))
    own = {Path(known[name]).resolve() for name in binaries if name in known}
    # Debian's Python interpreter itself needs libz and libgcc_s.
    hidden = [path for path in own if not path.name.startswith(("libz.", "libgcc_s."))]
    if set(binaries) == {"cep", "libcep.so.0", "_native.abi3.so"}:
        pytest.skip("this build is linked statically: the wheel carries no libraries of others")
    assert any(path.name.startswith("libcjson") for path in hidden), known
    mounts = "".join(f"mount --bind empty {path} && " for path in hidden)
    python = installed / "bin" / "python"
    script = f"{mounts}{python} job.py && {python} -m cep summarize output"
    assert "optimizer" in run("unshare", "-m", "sh", "-c", script, cwd=tmp_path)


def test_the_extension_module_is_in_the_wheel_and_in_use(installed, binaries):
    if not (Path(os.environ["TEST_BUILD_DIRECTORY"]) / "bindings/python/native/_native.abi3.so").exists():
        pytest.skip("the extension module is not built")
    assert "_native.abi3.so" in binaries
    assert run(installed / "bin" / "python", "-c", "import cep; print(cep.binding)") == "native\n"


def test_the_command_and_the_wheel_are_of_the_packages_version(wheel, installed):
    import cep

    assert wheel.name.startswith(f"cep-{cep.__version__}-")
    for command in ((installed / "bin" / "cep",), (installed / "bin" / "python", "-m", "cep")):
        assert run(*command, "--version") == f"cep {cep.__version__}\n"


def test_the_command_passes_its_status_on(installed):
    assert run(installed / "bin" / "cep", "no-such-command", status=2) == ""


def test_the_library_is_the_wheels_own(installed, binaries):
    path = run(installed / "bin" / "python", "-c", "import cep; print(cep.library_path())").strip()
    assert Path(path).samefile(binaries["libcep.so.0"])


def test_nothing_but_the_c_library_comes_from_the_machine(binaries):
    for path in binaries.values():
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", path))
        assert needed, path
        assert all(name in binaries or C_LIBRARY.match(name) for name in needed), (path.name, needed)


def test_the_loader_finds_the_wheels_libraries(binaries):
    for name in ("cep", "libcep.so.0"):
        for library, path in re.findall(r"^\s*(\S+) => (\S+)", run("ldd", binaries[name]), re.MULTILINE):
            assert C_LIBRARY.match(library) or Path(path).samefile(binaries[library]), (library, path)


def test_the_tag_says_the_c_library_that_is_needed(wheel, binaries):
    tag = re.fullmatch(r"cep-[\d.]+-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl", wheel.name)
    assert tag, wheel.name
    symbols = "".join(run("readelf", "-VW", path) for path in binaries.values())
    versions = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    assert (int(tag[1]), int(tag[2])) == max(versions)


def test_a_wheel_for_an_older_c_library_than_a_file_needs_is_refused(build, tmp_path):
    result = pip_wheel(tmp_path, f"build-dir={build}", "newest-glibc=2.3")
    assert result.returncode != 0 and list(tmp_path.iterdir()) == []
    assert re.search(r"cep: \S+ needs more than glibc 2\.3: \w+@(GLIBC|GLIBCXX|CXXABI)_\d", result.stdout + result.stderr)


def test_manual_pages_are_where_man_looks_for_those_of_the_command(installed):
    folder = installed / "share" / "man"
    pages = {path.name for path in (SOURCE / "man").glob("*.[1-9]")}
    assert pages <= {path.name for path in folder.glob("man?/*")}
    assert (folder / "man3" / "cep_close.3").read_text().startswith(".so man3/cep_open.3")


def test_every_module_of_the_package_is_in_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    modules = [path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.py")]
    assert [module for module in modules if module not in names] == []
    assert "cep/py.typed" in names


def test_the_record_lists_every_file_with_its_hash(wheel):
    archive = zipfile.ZipFile(wheel)
    (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {name: digest for name, digest, _ in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert sorted(rows) == sorted(archive.namelist())
    for name, digest in rows.items():
        content = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
        assert digest == ("" if name == record else f"sha256={content}")


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory, toml_parser):
    if shutil.which("git") is None or not (SOURCE / ".git").exists():
        pytest.skip("no git checkout")
    folder = tmp_path_factory.mktemp("archive")
    backend = SOURCE / "bindings" / "python" / "build_backend"
    script = f"import sys; sys.path.insert(0, {str(backend)!r}); import backend; print(backend.build_sdist('.'))"
    return folder / run(sys.executable, "-B", "-c", script, cwd=folder).splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked(source_archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(source_archive) as archive:
        archive.extractall(folder)
    return folder / source_archive.name[: -len(".tar.gz")]


def test_a_source_archive_has_what_a_build_needs(unpacked):
    for file in ("PKG-INFO", "pyproject.toml", "meson.build", "include/cep/cep.h", "lib/api.cpp", "LICENSE"):
        assert (unpacked / file).is_file()


def test_a_source_archive_names_nobody(source_archive):
    members = tarfile.open(source_archive).getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}


def test_every_header_that_a_source_includes_is_in_the_archive(unpacked):
    """Meson looks only for the files that it compiles. tools/wheel.sh --sdist compiles them, too."""
    roots = [unpacked / name for name in ("include", "lib", "lib/schema", "tools")]
    for source in [*unpacked.glob("lib/**/*.[ch]pp"), *unpacked.glob("tools/*/*.[ch]pp")]:
        for header in re.findall(r'^#include "(.+)"', source.read_text(encoding="utf-8"), re.MULTILINE):
            assert any((root / header).is_file() for root in [source.parent, *roots]), (source, header)


def test_a_source_archive_can_be_configured_in_a_clean_directory(unpacked, build, tmp_path):
    backend = "import sys; sys.path.insert(0, 'bindings/python/build_backend'); import backend; print(*backend.SETUP_OPTIONS)"
    options = run(sys.executable, "-B", "-c", backend, cwd=unpacked).split()
    run("meson", "setup", *options, tmp_path / "build", unpacked)
    targets = run("ninja", "-C", tmp_path / "build", "-t", "targets", "all")
    assert "tools/cep:" in targets and re.search(r"^lib/libcep\.so\.[\d.]+: ", targets, re.MULTILINE)
