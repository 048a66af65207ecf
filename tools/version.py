#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The version of the project. The one in meson.build holds; the other files repeat it.

    python3 tools/version.py             # prints it
    python3 tools/version.py --check     # names the files that have another one, and exits 1
    python3 tools/version.py --write     # writes it into them
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = "meson.build"
SOURCE_LINE = re.compile(r"^  version: '(\d+)\.(\d+)\.(\d+)',$", re.MULTILINE)

# Each file, and its lines that contain the version.
PLACES = (
    ("include/cep/cep.h", "#define CEP_VERSION_MAJOR @major@"),
    ("include/cep/cep.h", "#define CEP_VERSION_MINOR @minor@"),
    ("include/cep/cep.h", "#define CEP_VERSION_PATCH @patch@"),
    ("pyproject.toml", 'version = "@version@"'),
    ("bindings/python/cep/__init__.py", '__version__ = "@version@"'),
    ("bindings/python/cep/_ffi.py", "REQUIRED_VERSION = (@major@, @minor@)"),
    ("bindings/rust/cep/Cargo.toml", 'version = "@version@"'),
    ("bindings/rust/cep/Cargo.toml", 'cep-sys = { version = "@version@", path = "../cep-sys" }'),
    ("bindings/rust/cep-sys/Cargo.toml", 'version = "@version@"'),
    ("bindings/rust/cep-sys/README.md", "2. `pkg-config cep`, which must report version @major@.@minor@.x;"),
    ("bindings/rust/cep-sys/src/bindings.rs", "pub const CEP_VERSION_MAJOR: i32 = @major@;"),
    ("bindings/rust/cep-sys/src/bindings.rs", "pub const CEP_VERSION_MINOR: i32 = @minor@;"),
    ("bindings/rust/cep-sys/src/bindings.rs", "pub const CEP_VERSION_PATCH: i32 = @patch@;"),
    ("bindings/rust/programs/Cargo.toml", 'version = "@version@"'),
    ("bindings/rust/Cargo.lock", 'name = "cep"\nversion = "@version@"'),
    ("bindings/rust/Cargo.lock", 'name = "cep-sys"\nversion = "@version@"'),
    ("bindings/rust/Cargo.lock", 'name = "programs"\nversion = "@version@"'),
    ("bindings/julia/Project.toml", 'version = "@version@"'),
    ("bindings/julia/src/lib.jl", "const REQUIRED_VERSION = (@major@, @minor@)"),
    ("packaging/conda/recipe.yaml", "  version: @version@"),
    ("flake.nix", '      version = "@version@";'),
)
NUMBER = r"(?:0|[1-9]\d*)"
FORMS = {"major": NUMBER, "minor": NUMBER, "patch": NUMBER, "version": rf"{NUMBER}\.{NUMBER}\.{NUMBER}"}


def version_of(root):
    """The fields that a line can have, by name."""
    found = SOURCE_LINE.findall((root / SOURCE).read_text(encoding="utf-8"))
    if len(found) != 1:
        sys.exit(f"{SOURCE} does not have one line with the version")
    return dict(zip(("major", "minor", "patch"), found[0]), version=".".join(found[0]))


def pattern_of(template):
    """Matches the line of a template with any version."""
    text = re.escape(template)
    for name, form in FORMS.items():
        text = text.replace(f"@{name}@", form)
    return re.compile(f"^{text}$", re.MULTILINE)


def filled(template, version):
    for name, value in version.items():
        template = template.replace(f"@{name}@", value)
    return template


def faults_of(root, version):
    for file, template in PLACES:
        found = pattern_of(template).findall((root / file).read_text(encoding="utf-8"))
        wanted = filled(template, version)
        if len(found) != 1:
            yield f"{file}: {len(found)} lines of the form {template!r}, and there should be one"
        elif found[0] != wanted:
            yield f"{file}: {found[0]!r} is not {wanted!r}"


def write(root, version):
    for file, template in PLACES:
        path = root / file
        text = path.read_text(encoding="utf-8")
        path.write_text(pattern_of(template).sub(lambda _: filled(template, version), text), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true")
    choice.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="another copy of the source")
    arguments = parser.parse_args()
    version = version_of(arguments.root)
    if arguments.write:
        write(arguments.root, version)
    if not (arguments.check or arguments.write):
        print(version["version"])
        return 0
    faults = list(faults_of(arguments.root, version))
    print("\n".join(faults) or f"{version['version']} in {len(PLACES)} places")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
