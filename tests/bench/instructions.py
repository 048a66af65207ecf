# SPDX-License-Identifier: Apache-2.0
"""Counts what a call costs the trainer's thread inside libcep: instructions, and cache lines of code and data.

    python3 instructions.py PROGRAM LIBRARY

PROGRAM is bench_instructions, and LIBRARY the libcep.so that it loads; the loader must find the fake driver. It runs
under `valgrind --tool=lackey`, so the counts do not depend on the machine's speed. The driver's and the C library's own
instructions are not counted; data lines are those that libcep's instructions touch, the stack apart from the rest. Each
count is the median of several calls.
"""

import re
import statistics
import subprocess
import sys
from pathlib import Path

CALLS = ("cep_step", "cep_begin", "cep_switch", "cep_end", "cep_phase")
ROUNDS = 9
LINE_BYTES = 64
STACK_BYTES = 64 * 1024  # around a variable of the program


class Call:
    """What libcep does in one call."""

    def __init__(self):
        self.instructions, self.code, self.data = 0, set(), set()

    def counts(self, stack):
        in_stack = sum(1 for line in self.data if abs(line * LINE_BYTES - stack) < STACK_BYTES)
        return self.instructions, len(self.code), len(self.data) - in_stack, in_stack


class Program:
    """Where the program's mark, the library's code and the stack are, as the program prints it."""

    def __init__(self, library):
        self.library = Path(library).resolve().name
        self.mark, self.stack, self.code = None, 0, []

    def note(self, line):
        if line.startswith("inside "):
            self.mark, self.stack = (int(word, 16) for word in line.split()[1::2])
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-xp .*/(\S+)$", line)
        if found and found[3] == self.library:
            self.code.append((int(found[1], 16), int(found[2], 16)))


def calls_in(trace, program):
    """Follows lackey's trace. Yields what the library does between two stores to the program's mark."""
    call, in_library = None, False
    for line in trace:
        if call is None and line.startswith(("I  ", " L ")):
            continue
        access = re.match(r"(I | S| L| M)\s+([0-9a-f]+),(\d+)$", line)
        if not access:
            program.note(line)
            continue
        kind, address, size = access[1].strip(), int(access[2], 16), int(access[3])
        if kind in "SM" and address == program.mark:
            if call is not None:
                yield call
            call = Call() if call is None else None
        if call is None:
            continue
        lines = range(address // LINE_BYTES, (address + size - 1) // LINE_BYTES + 1)
        if kind == "I":
            in_library = any(start <= address < end for start, end in program.code)
            call.instructions += in_library
            call.code.update(lines if in_library else ())
        elif in_library:
            call.data.update(lines)


def main():
    executable, library = sys.argv[1:]
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=2", executable]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
    program = Program(library)
    made = [call.counts(program.stack) for call in calls_in(process.stderr, program)][-ROUNDS * len(CALLS) :]
    if process.wait() != 0 or not program.code:
        sys.exit("the program failed, or it did not load the library")
    print(f"{'call':12} {'instructions':>12} {'code lines':>12} {'data lines':>12} {'stack lines':>12}")
    for place, name in enumerate(CALLS):
        columns = zip(*made[place :: len(CALLS)])
        print(f"{name:12}" + "".join(f" {int(statistics.median(column)):12}" for column in columns))


if __name__ == "__main__":
    main()
