# SPDX-License-Identifier: Apache-2.0
"""The library's interface is compatible with that of the last release, which the baseline has.

    baseline_test.py --baseline FILE --layout TABLE --header HEADER --library LIBRARY [--write]

A line of the baseline is a struct with its size, a field with offset, size and type, a constant with its value, a type with what
it is, or a function with its symbol version and prototype. --write writes a new one:

    python3 tests/api/abi/baseline_test.py --write --baseline tests/api/abi/libcep.abi --header include/cep/cep.h \\
        --layout build/tests/api/abi/layout.txt --library build/lib/libcep.so
"""

import argparse
import pathlib
import re
import subprocess
import sys

from layout_program import declared_functions, structs, without_comments


def symbol_versions(library):
    """Of each exported function, the version that a program that is linked now will ask for."""
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", library]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r" (cep_\w+)@@(\S+)$", listing, flags=re.M))


def prototypes(header):
    """Of each function, result and types of arguments, without their names."""
    for result, name, arguments in declared_functions(header):
        types = [re.sub(r"\s*\b\w+$", "", argument.strip()) or "void" for argument in arguments.split(",")]
        yield name, f"{' '.join(result.split())}({', '.join(types)})"


def interface(layout, header, library):
    """What stands in the baseline: {"field cep_stats written": "16 8 uint64_t", …}."""
    types = {(struct, name): type for struct, fields in structs(header) for type, name in fields}
    found = {}
    for what, *words in map(str.split, layout.splitlines()):
        if what == "struct" or what == "constant" and "_VERSION_" not in words[0]:
            found[f"{what} {words[0]}"] = words[1]
        elif what == "field":
            found[f"field {words[0]} {words[1]}"] = " ".join([*words[2:4], types[words[0], words[1]]])
    found |= {f"type {name}": type for type, name in re.findall(r"^typedef (\w+) (cep_\w+);", header, flags=re.M)}
    versions = symbol_versions(library)
    found |= {f"function {name}": f"{versions.get(name)} {prototype}" for name, prototype in prototypes(header)}
    return found


def is_compatible(key, old, new):
    """Structs may grow: struct_size says how much of one a program knows."""
    return new == old or key.startswith("struct ") and new is not None and int(new) >= int(old)


def problems(baseline, current):
    for key, old in baseline.items():
        if not is_compatible(key, old, current.get(key)):
            yield f"{key}: {old} before, {current.get(key, 'gone')} now"
    for key in current.keys() - baseline.keys():
        size = baseline.get(f"struct {key.split()[1]}")
        if key.startswith("field ") and size and int(current[key].split()[0]) < int(size):
            yield f"{key}: new, and not at the end"


def main():
    parser = argparse.ArgumentParser()
    for file in ("baseline", "layout", "header", "library"):
        parser.add_argument(f"--{file}", required=True, type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    header = without_comments(arguments.header.read_text(encoding="utf-8"))
    current = interface(arguments.layout.read_text(encoding="utf-8"), header, arguments.library)
    if arguments.write:
        arguments.baseline.write_text("".join(f"{key} = {what}\n" for key, what in current.items()), encoding="utf-8")
        return 0
    lines = arguments.baseline.read_text(encoding="utf-8").splitlines()
    found = sorted(problems(dict(line.split(" = ") for line in lines), current))
    print("\n".join(found) or f"{len(lines)} lines hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
