#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows the rooms under tools/, their sizes, and which room uses which; or checks them.

    python3 tools/rooms.py              # a table: room, files, lines, the rooms that it uses
    python3 tools/rooms.py --dot        # the same as a graph for Graphviz
    python3 tools/rooms.py --check      # exit status 1 if an include reaches where the room's meson.build does not
"""
import argparse
import collections
import pathlib
import re
import sys

TOOLS = pathlib.Path(__file__).resolve().parent


def find_rooms(tools):
    """The folders with a meson.build, in the order in which tools/meson.build enters them."""
    return re.findall(r"^subdir\('(\w+)'\)", (tools / "meson.build").read_text(), re.MULTILINE)


def sources_of(tools, room):
    return sorted(path for path in (tools / room).iterdir() if path.suffix in (".cpp", ".hpp"))


def code_of(tools, room):
    """The sources, and what a page has of scripts and styles."""
    return sources_of(tools, room) + sorted(path for path in (tools / room).rglob("*") if path.suffix in (".js", ".css"))


def declared_arrows(tools, rooms):
    """{room: rooms that its meson.build names}. The commands may use every room."""
    arrows = {}
    for room in rooms:
        text = (tools / room / "meson.build").read_text()
        arrows[room] = {name for name in re.findall(r"\b(\w+)_dep\b", text) if name in rooms} - {room}
    arrows["commands"] = set(rooms) - {"commands"}
    return arrows


def includes_of(path):
    """(line number, included path) of each include in quotes."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*"([^"]+)"', line):
            yield number, match[1]


def used_arrows(tools, rooms):
    """{(room, room): ["file:line", ...]}, and what is wrong with how files are included."""
    used = collections.defaultdict(list)
    faults = []
    for room in rooms:
        for path in sources_of(tools, room):
            for number, included in includes_of(path):
                place = f"{path.relative_to(tools.parent)}:{number}"
                target = included.split("/")[0]
                if included in ("schema.hpp", "row_writer.hpp"):  # of rows, which the library and the command share
                    continue
                if target not in rooms or not (tools / included).is_file():
                    faults.append(f"{place}: '{included}' is not ROOM/FILE of a room under tools/")
                elif target != room:
                    used[room, target].append(place)
    return used, faults


def find_cycle(arrows):
    """A list of rooms that use each other in a circle; [] for none."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return []
        path.append(room)
        for target in sorted(arrows[room]):
            if cycle := visit(target):
                return cycle
        path.pop()
        done.add(room)
        return []

    for room in arrows:
        if cycle := visit(room):
            return cycle
    return []


def check(tools):
    rooms = find_rooms(tools)
    declared = declared_arrows(tools, rooms)
    used, faults = used_arrows(tools, rooms)
    for (room, target), places in sorted(used.items()):
        if target not in declared[room]:
            faults.append(f"{places[0]}: room '{room}' uses '{target}', which tools/{room}/meson.build does not name")
    for room, targets in declared.items():
        faults += [f"tools/{room}/meson.build names '{target}', which the room does not use"
                   for target in sorted(targets) if room != "commands" and (room, target) not in used]
    if cycle := find_cycle(declared):
        faults.append("rooms use each other in a circle: " + " -> ".join(cycle))
    for folder in sorted(path.name for path in tools.iterdir() if path.is_dir() and sources_of(tools, path.name)):
        if folder not in rooms:
            faults.append(f"tools/{folder} has sources and is no room: tools/meson.build does not enter it")
    return faults


def print_map(tools):
    rooms = find_rooms(tools)
    used, _ = used_arrows(tools, rooms)
    total_files = total_lines = 0
    print(f"{'room':<10} {'files':>5} {'lines':>6}  uses")
    for room in rooms:
        paths = code_of(tools, room)
        lines = sum(len(path.read_text().splitlines()) for path in paths)
        total_files += len(paths)
        total_lines += lines
        targets = [target for target in rooms if (room, target) in used]
        print(f"{room:<10} {len(paths):>5} {lines:>6}  {', '.join(targets)}")
    print(f"{'all':<10} {total_files:>5} {total_lines:>6}")


def print_graph(tools):
    used, _ = used_arrows(tools, find_rooms(tools))
    print("digraph rooms {\n    rankdir=BT;")
    for (room, target), places in sorted(used.items()):
        print(f'    "{room}" -> "{target}" [label="{len(places)}"];')
    print("}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dot", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tools", type=pathlib.Path, default=TOOLS, help="the folder of the rooms")
    arguments = parser.parse_args()
    if arguments.check:
        faults = check(arguments.tools.resolve())
        print("\n".join(faults) if faults else "every room uses only what its meson.build names")
        return 1 if faults else 0
    (print_graph if arguments.dot else print_map)(arguments.tools.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
