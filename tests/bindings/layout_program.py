# SPDX-License-Identifier: Apache-2.0
"""Writes the C program whose output is the layout table: what a compiler makes of <cep/cep.h>.

    layout_program.py HEADER > layout.c

The names come from the header, so that nothing new in it can be forgotten; sizes, offsets, types and values come from
the compiler. The program prints one line for each fact:

    version MAJOR MINOR PATCH
    struct NAME SIZE_BYTES
    field STRUCT NAME OFFSET_BYTES SIZE_BYTES TYPE
    constant NAME VALUE                   (as a signed number of 64 bits)
    function NAME RESULT ARGUMENT...

TYPE, RESULT and ARGUMENT are i32, u32, i64, u64, f64, ptr or, for a result, void.
"""

import re
import sys

TYPES = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "cep_span": "u64", "double": "f64"}

HEAD = """// Made by layout_program.py.
#include <cep/cep.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TYPE(value) \\
    _Generic((value), int32_t: "i32", uint32_t: "u32", int64_t: "i64", uint64_t: "u64", double: "f64", default: "ptr")
#define FIELD(type, name)                                                                          \\
    printf("field %s %s %zu %zu %s\\n", #type, #name, offsetof(type, name), sizeof(((type*)0)->name), \\
           TYPE(((type*)0)->name))
#define STRUCT(type) printf("struct %s %zu\\n", #type, sizeof(type))
#define CONSTANT(name) printf("constant %s %lld\\n", #name, (long long)(intptr_t)(name))

int main(void) {
    printf("version %d %d %d\\n", CEP_VERSION_MAJOR, CEP_VERSION_MINOR, CEP_VERSION_PATCH);
"""
TAIL = "    return 0;\n}\n"


def structs(text):
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S):
        yield name, [re.search(r"(\w+)\s*$", field).group(1) for field in body.split(";") if field.strip()]


def constants(text):
    """Macros with a value; those that take arguments, initialise a struct or are only markers have none of interest."""
    return [name for name in re.findall(r"^#define (CEP_\w+) +[^\s{]", text, flags=re.M) if name != "CEP_API"]


def type_code(declaration):
    """Of a result or an argument with its name."""
    if "*" in declaration:
        return "ptr"
    words = [word for word in declaration.split() if word != "const"]
    return "void" if words == ["void"] else TYPES[words[0]]


def functions(text):
    for result, name, arguments in re.findall(r"^CEP_API\b([^;{]*?)\b(cep_\w+)\s*\(([^)]*)\)", text, flags=re.M):
        codes = [type_code(argument) for argument in arguments.split(",")]
        yield name, [type_code(result), *(code for code in codes if code != "void")]


def program(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    lines = []
    for name, fields in structs(text):
        lines += [f"STRUCT({name});", *(f"FIELD({name}, {field});" for field in fields)]
    lines += [f"CONSTANT({name});" for name in constants(text)]
    lines += [f'puts("function {name} {" ".join(codes)}");' for name, codes in functions(text)]
    return HEAD + "".join(f"    {line}\n" for line in lines) + TAIL


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(program(file.read()))
