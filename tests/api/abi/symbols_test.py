# SPDX-License-Identifier: Apache-2.0
"""The header declares, the version script names, and the library exports the same functions."""

import argparse
import re
import subprocess
import sys

SKIPPED = 77


def declared(header: str) -> set[str]:
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return {
        match.group(1)
        for match in re.finditer(r"^CEP_API\b[^;{]*?\b(cep_\w+)\s*\(", text, flags=re.M)
    }


def mapped(version_script: str) -> tuple[set[str], list[str]]:
    """The names under "global:", and the mistakes in the script."""
    with open(version_script, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/|#[^\n]*", "", file.read(), flags=re.S)
    names, problems = set(), []
    for node in re.finditer(r"(\S+)\s*\{(.*?)\}", text, flags=re.S):
        for part in re.finditer(r"(global|local):(.*?)(?=global:|local:|\Z)", node.group(2), flags=re.S):
            found = [name.strip() for name in part.group(2).split(";") if name.strip()]
            if part.group(1) == "global":
                names.update(found)
    problems += [f"{version_script}: a pattern, not a name: {name}" for name in names if not name.isidentifier()]
    if not re.search(r"local:\s*\*\s*;", text):
        problems.append(f"{version_script}: nothing hides what is not named (local: *;)")
    return names, problems


def exported(library: str) -> set[str]:
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in listing.splitlines()]
    # Type A is the version node itself.
    return {field[-1].split("@")[0] for field in fields if len(field) == 3 and field[1] != "A"}


def differences(left: str, left_names: set[str], right: str, right_names: set[str]) -> list[str]:
    missing = [f"{name}: {left} has it, {right} does not" for name in sorted(left_names - right_names)]
    return missing + [f"{name}: {right} has it, {left} does not" for name in sorted(right_names - left_names)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--map", required=True)
    parser.add_argument("--header", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    header_names = declared(arguments.header)
    map_names, problems = mapped(arguments.map)
    if not header_names:
        problems.append("the header declares no function")
    problems += differences("the header", header_names, "the version script", map_names)
    try:
        problems += differences("the header", header_names, "the library", exported(arguments.library))
    except FileNotFoundError:
        print("skipped: nm is missing")
        return SKIPPED
    print("\n".join(problems) or f"{len(header_names)} functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
