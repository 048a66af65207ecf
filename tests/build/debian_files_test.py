# SPDX-License-Identifier: Apache-2.0
"""Each file that the build installs is in one Debian package, and no package waits for a file that is not installed.

    debian_files_test.py BUILD_DIRECTORY

tools/debian_package.sh builds the packages; this only compares debian/*.install with Meson's plan. Exits with 77 where the
build leaves something out.
"""

import fnmatch
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED_STATUS = 77
LIBRARIES = "usr/lib/x86_64-linux-gnu"
FOLDERS = {
    "{bindir}": "usr/bin", "{includedir}": "usr/include", "{libdir}": LIBRARIES, "{libdir_shared}": LIBRARIES,
    "{mandir}": "usr/share/man", "{py_purelib}": "usr/lib/python3/dist-packages",
}  # fmt: skip


def installed_files(build):
    plan = json.loads((build / "meson-info" / "intro-install_plan.json").read_text(encoding="utf-8"))
    for entry in (entry for entries in plan.values() for entry in entries.values()):
        folder, name = entry["destination"].split("/", 1)
        yield f"{FOLDERS.get(folder, folder)}/{name}"
    # Meson's plan does not list the links to the library.
    yield from (f"{LIBRARIES}/libcep.so", f"{LIBRARIES}/libcep.so.0")


def packaged_patterns():
    """(package, pattern) of each line of debian/*.install."""
    for file in sorted((ROOT / "debian").glob("*.install")):
        for line in file.read_text(encoding="utf-8").split():
            yield file.stem, line


def matches(path, pattern):
    """As dh_install does: a pattern for a folder takes what is in it."""
    return fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, f"{pattern}/*")


def main():
    files = sorted(installed_files(pathlib.Path(sys.argv[1])))
    needed = ("usr/bin/cep", "usr/lib/python3/dist-packages/cep/__init__.py", "usr/lib/python3/dist-packages/cep/_native.abi3.so")
    missing = [name for name in needed if name not in files]
    if missing:
        print(f"skipped: this build does not install {', '.join(missing)}")
        return SKIPPED_STATUS
    patterns = list(packaged_patterns())
    faults = [f"{package}: no file is installed as {pattern}" for package, pattern in patterns
              if not any(matches(path, pattern) for path in files)]
    for path in files:
        packages = sorted({package for package, pattern in patterns if matches(path, pattern)})
        if len(packages) != 1:
            faults.append(f"{path} is in {' and '.join(packages) or 'no package'}")
    control = (ROOT / "debian" / "control").read_text(encoding="utf-8")
    faults += [f"debian/control has no package {package}" for package, _ in patterns if f"\nPackage: {package}\n" not in control]
    print("\n".join(faults) or f"{len(files)} files, each in one of {len({package for package, _ in patterns})} packages")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
