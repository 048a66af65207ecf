#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every numeric constant of the rooms that decide is in the manual's table of constants, with its value and a reason.

In the source of cep-verdict(7), a line of the form

    .\\" room/file: name = value, name = value

stands above the row that gives the reason. Those that decide nothing (sizes of memory, mathematics) are listed under a
row that says so.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("ledger", "advice", "verdict", "replay", "stats", "matching")
FILES = ("model/blocking_comm", "model/collectives", "model/comm_rows", "model/inner_launches", "model/job_rows",
         "model/shared_names", "summary/step_picture", "comm/comm_channels")  # of other rooms
NUMBER = r"(?:double|float|int|unsigned|auto|(?:std::)?size_t|std::u?int\d+_t)"
CONSTANT = re.compile(rf"\bconstexpr\s+{NUMBER}\s+(\w+)\s*=\s*([^;]+);")
RULE = re.compile(rf"^\s+{NUMBER}\s+(\w+)\s*=\s*\n?\s*([^;]+);", re.MULTILINE)  # of a struct
NO_LIMIT = re.compile(r"numeric_limits|no_index")


def plain(value):
    return re.sub(r"\s+", " ", value.replace("'", "")).strip().removesuffix("F")


def constants_of(text):
    """(name, value) of each constant of a source."""
    for match in CONSTANT.finditer(text):
        yield match[1], plain(match[2])
    for struct in re.finditer(r"struct \w+Rules \{(.*?)^\};", text, re.DOTALL | re.MULTILINE):
        for match in RULE.finditer(struct[1]):
            yield match[1], plain(match[2])


def constants_of_sources(root):
    found = {}
    for place in [*(f"{room}/*" for room in ROOMS), *FILES]:
        for path in sorted((root / "tools").glob(place + ".[ch]pp")):
            for name, value in constants_of(path.read_text()):
                if not NO_LIMIT.search(value):
                    found.setdefault((f"{path.parent.name}/{path.stem}", name), []).append(value)
    return found


def constants_of_manual(text):
    found, has_row = {}, {}
    pending = []
    for line in text.splitlines():
        if match := re.match(r'\.\\" ((?:%s)): (.*)' % "|".join([*(room + r"/\w+" for room in ROOMS), *FILES]), line):
            for entry in match[2].split(", "):
                name, value = entry.split(" = ")
                found.setdefault((match[1], name), []).append(value)
                pending.append((match[1], name))
        elif line.startswith(".It "):
            has_row.update(dict.fromkeys(pending, True))
            pending = []
    return found, [key for key in found if key not in has_row]


def main():
    sources = constants_of_sources(ROOT)
    manual, without_row = constants_of_manual((ROOT / "man" / "cep-verdict.7").read_text())
    faults = []
    for (place, name), values in sources.items():
        if (place, name) not in manual:
            faults.append(f"man/cep-verdict.7 does not say why tools/{place} has {name} = {', '.join(values)}")
        elif sorted(manual[place, name]) != sorted(values):
            faults.append(f"tools/{place}: {name} is {', '.join(values)}, and {', '.join(manual[place, name])} in the manual")
    faults += [f"man/cep-verdict.7 names {name} of tools/{place}, which is gone" for place, name in manual if (place, name) not in sources]
    faults += [f"man/cep-verdict.7: no row follows {name} of tools/{place}" for place, name in without_row]
    if "--list" in sys.argv:
        for (place, name), values in sources.items():
            print(f"{place}: " + ", ".join(f"{name} = {value}" for value in values))
        return 0
    print("\n".join(faults) or f"{len(sources)} constants have a reason")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
