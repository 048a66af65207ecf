# SPDX-License-Identifier: Apache-2.0
"""The library, the command and the extension module can be linked against the C library that the wheel is for.

    old_symbols_test.py FILE...

tools/wheel.sh does link them so, which takes minutes; tests/python/packaging/test_portable_wheel.py reads what came out. This
test reads what the files of any build need. A symbol of a newer C library is fine where this machine's C library also has it
in an older version, or where tools/wheel says what takes its place. Exits with 77 without GNU's C library.
"""

import pathlib
import re
import subprocess
import sys

SKIPPED_STATUS = 77
NEWEST = (2, 27)  # that of tools/wheel/sysroot.sh
WHEEL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wheel"
# The older headers define these calls, or C's own names for them, in other terms.
OLD_HEADERS_HAVE = re.compile(r"(stat|fstat|lstat|fstatat)(64)?|fcntl64|mknod(at)?|__isoc23_\w+")


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, env={"LC_ALL": "C"}).stdout


def version(text):
    numbers = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def needed_symbols(file):
    """(name, version) of each symbol that a file needs of the C library."""
    for name, text in re.findall(r"\bUND +([^\s@]+)@(GLIBC_\S+)", output("readelf", "-W", "--dyn-syms", file)):
        if version(text):
            yield name, version(text)


def oldest_versions(files):
    """The oldest version in which this machine's C library has each symbol."""
    oldest = {}
    for file in files:
        for name, text in re.findall(r" (?!UND)\S+ +([^\s@]+)@@?(GLIBC_\S+)", output("readelf", "-W", "--dyn-syms", file)):
            if version(text):
                oldest[name] = min(version(text), oldest.get(name, version(text)))
    return oldest


def replaced_symbols():
    """What old_glibc.c defines, and what sysroot.sh takes out of the headers of the C++ runtime."""
    defined = re.findall(r"^(?:char|uint32_t) (\w+)|__asm__\(\"(\w+)\"\)", (WHEEL / "old_glibc.c").read_text("utf-8"), re.MULTILINE)
    names = {name for pair in defined for name in pair if name}
    removed = re.search(r"_GLIBCXX_USE_PTHREAD_\((\S+)\)", (WHEEL / "sysroot.sh").read_text("utf-8"))
    calls = {"COND_CLOCKWAIT": ["pthread_cond_clockwait"], "MUTEX_CLOCKLOCK": ["pthread_mutex_clocklock"],
             "RWLOCK_CLOCKLOCK": ["pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock"]}
    return names | {call for macro in removed[1].split("|") for call in calls[macro]}


def main():
    files = sys.argv[1:]
    libraries = {path for file in files for path in re.findall(r"lib[cm]\.so\.6 => (/\S+)", output("ldd", file))}
    oldest = oldest_versions(libraries)
    if version("GLIBC_2.2.5") not in oldest.values() and version("GLIBC_2.17") not in oldest.values():
        print("skipped: this is not GNU's C library")
        return SKIPPED_STATUS
    replaced = replaced_symbols()
    faults = 0
    for file in files:
        for name, needed in sorted(set(needed_symbols(file))):
            if max(needed, NEWEST) != NEWEST and oldest.get(name, needed) > NEWEST and name not in replaced \
                    and not OLD_HEADERS_HAVE.fullmatch(name):
                print(f"{pathlib.Path(file).name} needs {name}, which glibc has since {needed[0]}.{needed[1]} only")
                faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
