# SPDX-License-Identifier: Apache-2.0
"""Reads the layout table (see tests/api/abi/layout_program.py)."""

from typing import NamedTuple


class Field(NamedTuple):
    offset_bytes: int
    size_bytes: int
    type: str


class Table:
    def __init__(self, lines):
        self.version = None
        self.sizes_bytes = {}
        self.fields = {}
        self.constants = {}
        self.functions = {}
        for line in lines:
            self._add(*line.split())

    def _add(self, what, *words):
        if what == "version":
            self.version = tuple(map(int, words))
        elif what == "struct":
            self.sizes_bytes[words[0]] = int(words[1])
            self.fields[words[0]] = {}
        elif what == "field":
            self.fields[words[0]][words[1]] = Field(int(words[2]), int(words[3]), words[4])
        elif what == "constant":
            self.constants[words[0]] = int(words[1])
        elif what == "function":
            self.functions[words[0]] = list(words[1:])
        else:
            raise ValueError(f"{what}: not a line of a layout table")


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return Table(file)
