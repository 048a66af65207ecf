# SPDX-License-Identifier: Apache-2.0
"""Projects of C and C++ find an installed libcep with find_package() and with pkg-config, wherever it was moved to.

    cmake_package_test.py BUILD_DIRECTORY VERSION

Exits with 77 if cmake or another program is missing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77
BUILD, VERSION = sys.argv[1:3]
MAJOR, MINOR, _ = VERSION.split(".")
NEXT_MINOR = f"{MAJOR}.{int(MINOR) + 1}"

# Without languages, which takes a tenth of the time.
SEARCH = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES NONE)
find_package(cep %s REQUIRED)
"""
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C CXX)
find_package(cep %s REQUIRED)
find_package(cep REQUIRED) # a second time, as a dependency may do
add_executable(user_c user.c)
target_link_libraries(user_c PRIVATE cep::cep)
add_executable(user_cxx user.cpp)
target_compile_features(user_cxx PRIVATE cxx_std_17)
target_link_libraries(user_cxx PRIVATE cep::cep)
"""
C_SOURCE = "#include <cep/cep.h>\n#include <stdio.h>\nint main(void) { return puts(cep_version()) < 0; }\n"
CXX_SOURCE = "#include <cep/cep.hpp>\n#include <cstdio>\nint main() { cep::Options o; return std::puts(cep_version()) < 0; }\n"


def run(*command, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"} | variables
    words = [str(word) for word in command]
    return subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def install(folder):
    """Installs the build below a folder, and moves its prefix elsewhere. Returns the new prefix."""
    done = run("meson", "install", "--quiet", "--no-rebuild", "--tags", "devel,runtime", "-C", BUILD, "--destdir", folder)
    if done.returncode != 0:
        sys.exit(done.stdout)
    (header,) = folder.rglob("cep/cep.h")
    return shutil.move(header.parents[2], folder / "moved here")


class InstalledLibrary(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.prefix = Path(install(self.folder))

    def search(self, wanted):
        (description,) = self.prefix.rglob("cep-config.cmake")
        return self.configure(SEARCH % wanted, f"-Dcep_DIR={description.parent}")

    def configure(self, project, *options):
        source = self.folder / "user"
        source.mkdir(exist_ok=True)
        (source / "CMakeLists.txt").write_text(project)
        (source / "user.c").write_text(C_SOURCE)
        (source / "user.cpp").write_text(CXX_SOURCE)
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        return run("cmake", "-S", source, "-B", self.folder / "build", "-G", "Ninja", *options)

    def test_programs_are_built_with_the_target_and_run(self):
        wanted = f"{MAJOR}.{MINOR}"
        configured = self.configure(PROJECT % wanted, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertEqual(configured.returncode, 0, configured.stdout)
        built = run("cmake", "--build", self.folder / "build")
        self.assertEqual(built.returncode, 0, built.stdout)
        for name in ("user_c", "user_cxx"):
            program = run(self.folder / "build" / name)
            self.assertEqual((program.returncode, program.stdout), (0, f"{VERSION}\n"))

    def test_versions_are_taken_of_the_same_minor_version_only(self):
        for wanted in ("", MAJOR, VERSION, f"{VERSION} EXACT", f"{MAJOR}.{MINOR}...<{NEXT_MINOR}"):
            self.assertEqual(self.search(wanted).returncode, 0, wanted)
        for refused in ("0.1", "0.1.0 EXACT", f"{MAJOR}.{MINOR}.99", NEXT_MINOR, "99", f"0.1...<{MAJOR}.{MINOR}"):
            self.assertNotEqual(self.search(refused).returncode, 0, refused)

    def test_a_missing_file_is_named(self):
        (header,) = self.prefix.rglob("cep.h")
        header.unlink()
        self.assertRegex(self.search("").stdout, r"cep\.h\s+is\s+missing")

    def test_pkg_config_knows_the_version_and_needs_nothing_else(self):
        (description,) = self.prefix.rglob("cep.pc")
        options = {"PKG_CONFIG_PATH": str(description.parent)}
        self.assertEqual(run("pkg-config", "--modversion", "cep", **options).stdout, f"{VERSION}\n")
        for what in ("--print-requires", "--print-requires-private"):
            self.assertEqual(run("pkg-config", what, "cep", **options).stdout, "")


if __name__ == "__main__":
    missing = [name for name in ("cmake", "ninja", "pkg-config", "meson") if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
